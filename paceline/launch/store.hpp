// Store: the values of the rendezvous and the requests that wait for them. Pure: no sockets, no time. Bounded in every
// direction, because a client that knows the secret may still be broken.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/launch/protocol.hpp"

namespace paceline {

class Store {
 public:
  using SessionId = std::uint64_t;
  struct Limits {
    std::size_t bytes = 64 * 1024 * 1024;  // of all keys and values
    std::size_t waiting = 1024 * 1024;     // get requests without an answer yet, of all sessions
  };
  // A reply and whom it is for. A set may answer the gets of many sessions.
  struct Delivery {
    SessionId to = 0;
    Reply reply;
  };

  Store() = default;
  explicit Store(const Limits& limits) : limits_(limits) {}

  std::vector<Delivery> handle(SessionId from, StoreRequest request);
  // The session is gone: nobody waits for its answers any more.
  void forget(SessionId session);

  std::size_t bytes() const { return bytes_; }
  std::size_t waiting() const { return waiting_; }

 private:
  struct Waiter {
    SessionId session = 0;
    std::uint32_t id = 0;
  };
  std::vector<Delivery> put(SessionId from, StoreRequest request);
  std::vector<Delivery> get(SessionId from, const StoreRequest& request);

  Limits limits_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Waiter>> waiters_;
  std::size_t bytes_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace paceline
