// Prefetch: makes batches on a thread of its own, a few ahead of whoever takes them, in buffers that go round.
//
// All calls come from one thread, the owner. The function that makes a batch runs on the other thread, between start()
// and stop(); never at the same time as the owner is between stop() and start().
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/data/batch.hpp"

namespace paceline {

class Prefetch {
 public:
  using Make = std::function<void(std::size_t step, Batch& batch)>;
  static constexpr std::size_t kAhead = 3;

  explicit Prefetch(Make make);
  ~Prefetch();  // gives up what is not made yet
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // Makes the batches of steps 0 … steps-1, from now on.
  void start(std::size_t steps);
  // Returns when `make` no longer runs. What was made is forgotten.
  void stop();

  // The batch of the next step, nullptr after the last. It stays as it is until the next call. Rethrows what `make`
  // threw, in place of that step's batch, then and at every later call until start().
  const Batch* next();
  // The batch that next() will give, if it is made already and there is one; nullptr otherwise. Never waits.
  const Batch* peek();

 private:
  void run(const std::stop_token& stop);
  void make_one(std::unique_lock<std::mutex>& lock);
  bool may_make() const;
  Batch& slot(std::size_t step) { return slots_[step % slots_.size()]; }

  const Make make_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_. Slots belong to the thread while `making_` (that of step made_), to the owner once made.
  std::size_t steps_ = 0;
  std::size_t made_ = 0;
  std::size_t taken_ = 0;
  bool making_ = false;
  std::exception_ptr failure_;
  std::vector<Batch> slots_;  // one more than kAhead: the one that the owner looks at

  std::jthread thread_;  // last, so that it ends before the rest goes
};

}  // namespace paceline
