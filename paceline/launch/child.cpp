#include "paceline/launch/child.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstring>

namespace paceline {

std::string describe(const Ending& ending) {
  if (!ending.signalled) return fmt::format("ended with exit code {}", ending.number);
  return fmt::format("was killed by signal {} ({})", ending.number, strsignal(ending.number));
}

void Child::watch(PollSet& set) const {
  if (running()) set.add(process_.number(), POLLIN);
}

void Child::signal(int number) const {
  if (running()) kill(-pid_, number);
}

std::optional<Ending> Child::reap() {
  siginfo_t info = {};
  if (!running() || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return std::nullopt;
  if (info.si_pid == 0) return std::nullopt;
  // While the process is a zombie its group's number cannot be given to others.
  kill(-pid_, SIGKILL);
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  process_ = Descriptor();
  return Ending{.signalled = info.si_code != CLD_EXITED, .number = info.si_status};
}

}  // namespace paceline
