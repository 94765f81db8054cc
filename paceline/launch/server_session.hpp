// ServerSession: the store's side of one connection, without the connection. Bytes go in, bytes and requests come out;
// requests only after the other side has proved that it knows the secret. Takes any bytes whatever.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/launch/proof.hpp"
#include "paceline/launch/protocol.hpp"

namespace paceline {

class ServerSession {
 public:
  enum class State {
    hello,   // waits for the client's hello
    proof,   // has sent its own hello, waits for the client's proof
    open,    // both sides have proved themselves
    closed,  // what is in output() may still be sent, nothing more is read
  };

  ServerSession(const Terms& terms, std::string nonce) : terms_(terms), nonce_(std::move(nonce)) {}

  void receive(std::string_view bytes);
  std::vector<StoreRequest> take_requests() { return std::exchange(requests_, {}); }
  void reply(const Reply& reply);

  State state() const { return state_; }
  // To be sent; whoever sends it removes it.
  std::string& output() { return output_; }
  const std::string& output() const { return output_; }
  // Why the session is closed.
  const std::string& reason() const { return reason_; }

 private:
  bool advance(std::string_view& input);
  bool read_hello(std::string_view& input);
  bool read_proof(std::string_view& input);
  bool read_frame(std::string_view& input);
  bool close(std::string reason);

  const Terms& terms_;
  std::string nonce_;
  State state_ = State::hello;
  std::string input_;
  std::string output_;
  std::vector<StoreRequest> requests_;
  std::string reason_;
  Proofs proofs_;
  Seal incoming_;
  Seal outgoing_;
};

}  // namespace paceline
