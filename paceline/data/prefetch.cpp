#include "paceline/data/prefetch.hpp"

#include <signal.h>

#include <system_error>
#include <utility>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// A thread that starts inside has all signals blocked from its first instruction, so that they go to others.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &original_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &original_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t original_;
};

}  // namespace

Prefetch::Prefetch(Make make) : make_(std::move(make)), slots_(kAhead + 1) {
  const SignalsBlocked blocked;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    throw paceline::system_error("cannot start a thread that loads batches", error.code().value());
  }
}

Prefetch::~Prefetch() = default;

void Prefetch::start(std::size_t steps) {
  stop();
  const std::lock_guard lock(mutex_);
  steps_ = steps;
  changed_.notify_all();
}

void Prefetch::stop() {
  std::unique_lock lock(mutex_);
  steps_ = 0;
  changed_.wait(lock, [&] { return !making_; });
  made_ = taken_ = 0;
  failure_ = nullptr;
}

const Batch* Prefetch::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return made_ > taken_ || failure_ || taken_ == steps_; });
  if (made_ > taken_) {
    changed_.notify_all();  // the slot of the batch before is free now
    return &slot(taken_++);
  }
  if (failure_) std::rethrow_exception(failure_);
  return nullptr;
}

const Batch* Prefetch::peek() {
  const std::lock_guard lock(mutex_);
  return made_ > taken_ ? &slot(taken_) : nullptr;
}

// The owner may still look at the batch before `taken_`.
bool Prefetch::may_make() const { return made_ < steps_ && made_ < taken_ + kAhead && !failure_; }

void Prefetch::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return may_make(); }) && !stop.stop_requested()) make_one(lock);
}

void Prefetch::make_one(std::unique_lock<std::mutex>& lock) {
  const std::size_t step = made_;
  making_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    make_(step, slot(step));
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  making_ = false;
  if (failure) {
    failure_ = failure;
  } else {
    ++made_;
  }
  changed_.notify_all();
}

}  // namespace paceline
