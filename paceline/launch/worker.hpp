// Worker: one running child of the launcher, with the pipes that its output comes through. One thread owns it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "paceline/core/error.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/line_prefix.hpp"
#include "paceline/launch/poll_set.hpp"
#include "paceline/launch/sink.hpp"

namespace paceline {

// How a worker ended.
struct Ending {
  bool signalled = false;
  int number = 0;  // the signal, or the exit code

  // As a shell would say it: 128 + signal.
  int exit_code() const { return signalled ? 128 + number : number; }
};
// "ended with exit code 3", "was killed by signal 9 (Killed)".
std::string describe(const Ending& ending);

// One of a worker's two output streams, from its pipe to the launcher's sink.
class Stream {
 public:
  Stream(Descriptor pipe, std::string prefix, Sink& sink);

  void watch(PollSet& set) const;
  void transfer(const PollSet& set);
  // Takes what is left in the pipe and closes it, whoever else may still hold its other end.
  void finish();

 private:
  bool read_some();

  Descriptor pipe_;
  LinePrefix lines_;
  Sink* sink_;
};

class Worker {
 public:
  Worker(Rank rank, pid_t pid, Descriptor process, Stream output, Stream errors);

  Rank rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  bool running() const { return process_.valid(); }

  void watch(PollSet& set) const;
  void transfer(const PollSet& set);
  // To the worker and all its descendants that have not left its process group.
  void signal(int number) const;
  // If the worker has ended: kills what is left of its group, takes its last output and says how it ended.
  std::optional<Ending> reap();

 private:
  Rank rank_;
  pid_t pid_;
  Descriptor process_;  // a pidfd, as long as the worker has not been reaped
  Stream output_;
  Stream errors_;
};

}  // namespace paceline
