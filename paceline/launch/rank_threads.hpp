// RankThreads: further ranks of this process (extend), each a thread that owns its Endpoint and runs `body`.
//
// A rank whose body throws closes its Endpoint, so that others fail instead of waiting for it; join() throws what it
// threw. The destructor waits for the bodies to end: whoever owns this sees to it that they do.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "paceline/fabric/endpoint.hpp"

namespace paceline {

class RankThreads {
 public:
  using Body = std::function<void(Endpoint&)>;

  RankThreads() = default;
  RankThreads(std::vector<std::unique_ptr<Endpoint>> endpoints, const Body& body);
  RankThreads(RankThreads&&) = default;
  RankThreads& operator=(RankThreads&&) = default;

  // Waits for all; throws what the first of them threw.
  void join();

 private:
  struct Member {
    std::unique_ptr<Endpoint> endpoint;
    std::exception_ptr failure;
    std::jthread thread;  // last: it ends before what it uses
  };
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace paceline
