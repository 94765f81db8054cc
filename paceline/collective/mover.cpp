#include "paceline/collective/mover.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "paceline/collective/communicator_state.hpp"
#include "paceline/collective/traffic.hpp"
#include "paceline/fabric/quiet_thread.hpp"

namespace paceline {

bool Mover::possible(const Communicator& communicator) { return communicator.endpoint().descriptor() >= 0; }

Mover::Mover(Communicator& communicator)
    : endpoint_(communicator.endpoint()),
      traffic_(traffic_of(endpoint_)),
      nudge_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!nudge_.valid()) throw system_error("cannot create an eventfd", errno);
  try {
    thread_ = quiet_thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw system_error("cannot start a thread that moves gradients", error.code().value());
  }
}

Mover::~Mover() {
  recall();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  eventfd_write(nudge_.number(), 1);
}

void Mover::lend() {
  if (traffic_->lent_to != nullptr && traffic_->lent_to != this) traffic_->lent_to->recall();
  traffic_->lent_to = this;
  {
    const std::lock_guard lock(mutex_);
    lent_ = true;
  }
  eventfd_write(nudge_.number(), 1);
}

bool Mover::lent() const { return traffic_->lent_to == this; }

void Mover::recall() noexcept {
  if (!lent()) return;
  traffic_->lent_to = nullptr;
  wanted_ = true;
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  lent_ = false;
  if (failure_ != nullptr) traffic_->failure = std::exchange(failure_, nullptr);
}

// A lock alone would not do: a thread that lets go and takes it again at once leaves nothing to those who wait.
void Mover::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!lent_ || wanted_) {
      sleep(lock, -1, kNever);
      continue;
    }
    try {
      if (move()) continue;
      endpoint_.idle(endpoint_.clock().now());  // sees who rang, and who died
      if (move()) continue;
      if (const auto until = endpoint_.arm()) sleep(lock, endpoint_.descriptor(), *until);
    } catch (...) {
      failure_ = std::current_exception();
      lent_ = false;
    }
  }
}

bool Mover::move() { return !traffic_->communicators.empty() && traffic_->communicators.front()->step(); }

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
