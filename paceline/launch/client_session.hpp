// ClientSession: a worker's side of one connection to the store, without the connection. Bytes go in, bytes and replies
// come out. Throws Error{refused} when the other side is not the store of this job: another version, another secret, or
// something else altogether.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/launch/proof.hpp"
#include "paceline/launch/protocol.hpp"

namespace paceline {

class ClientSession {
 public:
  // `peer` names the store in sentences: "127.0.0.1:4711".
  ClientSession(const Terms& terms, std::string_view nonce, std::string peer);

  void receive(std::string_view bytes);
  std::vector<Reply> take_replies() { return std::exchange(replies_, {}); }
  // Only when open.
  void request(const StoreRequest& request);

  bool open() const { return state_ == State::open; }
  // To be sent; whoever sends it removes it.
  std::string& output() { return output_; }

 private:
  enum class State { hello, verdict, open };
  bool advance(std::string_view& input);
  bool read_hello(std::string_view& input);
  bool read_verdict(std::string_view& input);
  bool read_frame(std::string_view& input);

  Terms terms_;
  std::string peer_;
  std::string hello_;
  State state_ = State::hello;
  std::string input_;
  std::string output_;
  std::vector<Reply> replies_;
  Proofs proofs_;
  Seal incoming_;
  Seal outgoing_;
};

}  // namespace paceline
