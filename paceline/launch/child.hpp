// Child: one process that a launcher has started, the leader of a process group of its own. One thread owns it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/poll_set.hpp"

namespace paceline {

// How a process ended.
struct Ending {
  bool signalled = false;
  int number = 0;  // the signal, or the exit code

  // As a shell would say it: 128 + signal.
  int exit_code() const { return signalled ? 128 + number : number; }
};
// "ended with exit code 3", "was killed by signal 9 (Killed)".
std::string describe(const Ending& ending);

class Child {
 public:
  Child(pid_t pid, Descriptor process) : pid_(pid), process_(std::move(process)) {}

  pid_t pid() const { return pid_; }
  bool running() const { return process_.valid(); }
  void watch(PollSet& set) const;
  // To the process and all its descendants that have not left its group.
  void signal(int number) const;
  // If the process has ended: kills what is left of its group and says how it ended.
  std::optional<Ending> reap();

 private:
  pid_t pid_;
  Descriptor process_;  // a pidfd, as long as the process has not been reaped
};

}  // namespace paceline
