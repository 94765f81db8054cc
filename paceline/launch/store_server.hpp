// StoreServer: the rendezvous store behind a socket. Event-driven: whoever owns it polls descriptor() and calls
// progress() when it is readable; it never blocks and has no thread. One thread owns it.
//
// A connection is a stranger until it has proved that it knows the secret. Strangers have little time, there are few of
// them at once (the oldest makes room), and each holds at most a few hundred bytes here.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/address.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/server_session.hpp"
#include "paceline/launch/store.hpp"

namespace paceline {

struct StoreServerOptions {
  Address address = {.host = "127.0.0.1", .port = 0};  // port 0: the kernel chooses
  Terms terms = {};                                    // without a secret, only a loopback address is accepted
  std::size_t max_strangers = 256;
  Duration proof_timeout = std::chrono::seconds(10);
};

class StoreServer {
 public:
  // Throws Error: not loopback and no secret, or the address cannot be listened at.
  StoreServer(StoreServerOptions options, const Clock& clock);

  // With the port that was chosen.
  const Address& address() const { return options_.address; }
  int descriptor() const { return epoll_.number(); }
  void progress();

  std::size_t strangers() const { return strangers_.size(); }
  std::size_t members() const { return members_.size(); }

 private:
  using Id = Store::SessionId;
  struct Connection {
    Descriptor socket;
    ServerSession session;
    TimePoint expires;
    std::uint32_t interest = 0;  // the events that epoll reports
  };
  using Connections = std::map<Id, Connection>;  // by age

  void listen();
  void accept_some();
  bool make_room();
  void add_stranger(Descriptor socket);
  void pause_listening();
  void on_timer();
  void start_timer();

  void on_connection(Id id, std::uint32_t events);
  bool read_from(Connection& connection);
  void serve(Id id, Connection& connection);
  bool flush(Id id, Connection& connection);
  void drop(Id id);
  Connection* find(Id id);

  // Constant after construction.
  StoreServerOptions options_;
  const Clock& clock_;
  Descriptor epoll_;
  Descriptor listener_;
  Descriptor timer_;

  Store store_;
  Connections strangers_;
  Connections members_;
  Id next_id_;
  bool paused_ = false;
};

}  // namespace paceline
