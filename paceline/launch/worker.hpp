// Worker: one running worker of this host, with the pipes that its output comes through. One thread owns it.
#pragma once

#include <optional>
#include <string>

#include "paceline/core/error.hpp"
#include "paceline/launch/child.hpp"
#include "paceline/launch/line_prefix.hpp"
#include "paceline/launch/pipe_reader.hpp"
#include "paceline/launch/sink.hpp"

namespace paceline {

// One of a worker's two output streams, from its pipe to the launcher's sink.
class Stream {
 public:
  Stream(Descriptor pipe, std::string prefix, Sink& sink)
      : pipe_(std::move(pipe)), lines_(std::move(prefix)), sink_(&sink) {}

  void watch(PollSet& set) const;
  void transfer(const PollSet& set);
  void finish();

 private:
  PipeReader pipe_;
  LinePrefix lines_;
  Sink* sink_;
};

class Worker {
 public:
  Worker(Rank rank, Child process, Stream output, Stream errors)
      : rank_(rank), process_(std::move(process)), output_(std::move(output)), errors_(std::move(errors)) {}

  Rank rank() const { return rank_; }
  pid_t pid() const { return process_.pid(); }
  bool running() const { return process_.running(); }

  void watch(PollSet& set) const;
  void transfer(const PollSet& set);
  void signal(int number) const { process_.signal(number); }
  // If the worker has ended: kills what is left of its group, takes its last output and says how it ended.
  std::optional<Ending> reap();

 private:
  Rank rank_;
  Child process_;
  Stream output_;
  Stream errors_;
};

}  // namespace paceline
