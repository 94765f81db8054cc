#include "paceline/fabric/mover.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "paceline/fabric/quiet_thread.hpp"

namespace paceline {

Mover::Mover(Endpoint& endpoint, std::function<bool()> move)
    : endpoint_(endpoint), move_(std::move(move)), nudge_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!nudge_.valid()) throw system_error("cannot create an eventfd", errno);
  try {
    thread_ = quiet_thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw system_error("cannot start a thread that moves messages", error.code().value());
  }
}

Mover::~Mover() {
  recall();
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::ending;
  }
  eventfd_write(nudge_.number(), 1);
}

void Mover::lend() {
  lent_ = true;
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::moving;
  }
  eventfd_write(nudge_.number(), 1);
}

void Mover::recall() noexcept {
  if (!std::exchange(lent_, false)) return;
  wanted_ = true;
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  phase_ = Phase::resting;
}

// A lock alone would not do: a thread that lets go and takes it again at once leaves nothing to those who wait.
void Mover::run() {
  std::unique_lock lock(mutex_);
  while (phase_ != Phase::ending) {
    if (phase_ == Phase::resting || wanted_) {
      sleep(lock, -1, kNever);
      continue;
    }
    try {
      if (move_()) continue;
      endpoint_.idle(endpoint_.clock().now());  // sees who rang, and who died
      if (move_()) continue;
      if (const auto until = endpoint_.arm()) sleep(lock, endpoint_.descriptor(), *until);
    } catch (...) {
      failure_ = std::current_exception();
      phase_ = Phase::resting;
    }
  }
}

void Mover::sleep(std::unique_lock<std::mutex>& lock, int descriptor, TimePoint until) {
  std::array<pollfd, 2> watched = {{{nudge_.number(), POLLIN, 0}, {descriptor, POLLIN, 0}}};
  const timespec span = time_left(until, endpoint_.clock().now());
  lock.unlock();
  ppoll(watched.data(), watched.size(), until == kNever ? nullptr : &span, nullptr);
  lock.lock();
  eventfd_t ignored;
  eventfd_read(nudge_.number(), &ignored);
}

}  // namespace paceline
