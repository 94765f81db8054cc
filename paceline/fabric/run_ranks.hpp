// run_ranks(n, body): runs body(endpoint) once per rank, ranks as threads of this process, and rethrows the first
// error. For tests and for programs that want threads as workers. A rank that throws closes its endpoint, so that the
// others fail instead of waiting for it.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/thread/thread.hpp"

namespace paceline {

inline void run_ranks(std::vector<std::unique_ptr<Endpoint>> endpoints, const std::function<void(Endpoint&)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (auto& endpoint : endpoints) {
      threads.emplace_back([&mutex, &first, &body, own = std::move(endpoint)] {
        try {
          body(*own);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (first == nullptr) first = std::current_exception();
        }
        own->close();
      });
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

inline void run_ranks(int size, const std::function<void(Endpoint&)>& body) {
  run_ranks(make_thread_endpoints(size), body);
}

}  // namespace paceline
