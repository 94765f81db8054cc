// Mover: a thread to which an Endpoint's owner lends it while the owner computes. What there is to move, the layer
// above says.
//
//   Mover mover(endpoint, [&] { return communicators_step(); });   // true if anything moved
//   mover.lend();              // from here on the Endpoint is the thread's …
//   compute();
//   mover.recall();            // … and from here on its owner's again
//
// The thread sleeps in the kernel, without holding anything, as long as there is nothing to move: to recall is to take
// a lock that is free, or to wait for what the thread is just moving. lend, recall and lent belong to the owner.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "paceline/fabric/descriptor.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

class Mover {
 public:
  // Whether there is something that a thread could sleep on: not in virtual time.
  static bool possible(const Endpoint& endpoint) { return endpoint.descriptor() >= 0; }

  // `move` is called on the thread, while lent. The Endpoint outlives the Mover. Throws Error{system} if there cannot
  // be another thread.
  Mover(Endpoint& endpoint, std::function<bool()> move);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void lend();
  // Returns when the thread has let go.
  void recall() noexcept;
  bool lent() const { return lent_; }
  // What `move` has thrown, after which nothing was moved any more. When not lent.
  const std::exception_ptr& failure() const { return failure_; }

 private:
  void run();
  void sleep(std::unique_lock<std::mutex>& lock, int descriptor, TimePoint until);

  Endpoint& endpoint_;
  const std::function<bool()> move_;
  bool lent_ = false;  // the owner's view
  Descriptor nudge_;   // an eventfd
  std::mutex mutex_;   // held by the thread whenever it uses the Endpoint
  enum class Phase { resting, moving, ending };
  Phase phase_ = Phase::resting;
  std::atomic<bool> wanted_ = false;  // the owner waits for the lock
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace paceline
