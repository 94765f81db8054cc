#include "paceline/launch/signals.hpp"

#include <sys/signalfd.h>

#include <cerrno>

#include "paceline/core/error.hpp"

namespace paceline {

Signals::Signals() {
  sigset_t passed_on;
  sigemptyset(&passed_on);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    sigaddset(&passed_on, number);
  }
  blocked_ = passed_on;
  sigaddset(&blocked_, SIGPIPE);  // a reader who has gone is an error of write, not our end
  sigprocmask(SIG_BLOCK, &blocked_, &original_);
  descriptor_ = Descriptor(signalfd(-1, &passed_on, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.valid()) throw system_error("cannot create a signalfd", errno);
}

// What is still pending (a SIGPIPE of a write that failed, a signal that came too late to be passed on) would otherwise
// be delivered by the last line, and end this process in the middle of its tidying up.
Signals::~Signals() {
  const timespec at_once = {};
  while (sigtimedwait(&blocked_, nullptr, &at_once) > 0) {
  }
  sigprocmask(SIG_SETMASK, &original_, nullptr);
}

std::optional<int> Signals::next() {
  signalfd_siginfo info = {};
  if (read(descriptor_.number(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace paceline
