// Mover: a thread that moves what the Communicators of an Endpoint have under way, while their owner computes.
//
//   Mover mover(communicator);
//   Handle sum = communicator.start_allreduce(view(gradient));
//   mover.lend();              // from here on the Endpoint is the thread's …
//   compute();
//   sum.wait();                // … and from here on its owner's again
//
// Between lend() and recall() the owner may call any Communicator of the Endpoint, which recalls by itself, but not the
// Endpoint. The thread sleeps in the kernel, without holding anything, as long as there is nothing to move: to recall
// is to take a lock that is free, or to wait for what the thread is just moving.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "paceline/collective/communicator.hpp"
#include "paceline/fabric/descriptor.hpp"

namespace paceline {

struct Traffic;

class Mover {
 public:
  // Whether there is something that a thread could sleep on: not in virtual time.
  static bool possible(const Communicator& communicator);

  // Throws Error{system} if there cannot be another thread.
  explicit Mover(Communicator& communicator);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void lend();
  bool lent() const;
  // Returns when the thread has let go. What made it stop, if anything did, is thrown by whatever the owner calls next.
  void recall() noexcept;

 private:
  void run();
  bool move();
  void sleep(std::unique_lock<std::mutex>& lock, int descriptor, TimePoint until);

  Endpoint& endpoint_;
  const std::shared_ptr<Traffic> traffic_;
  Descriptor nudge_;  // an eventfd
  std::mutex mutex_;  // held by the thread whenever it uses the Endpoint
  bool lent_ = false;
  bool ending_ = false;
  std::atomic<bool> wanted_ = false;  // the owner waits for the lock
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace paceline
