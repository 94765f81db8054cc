// HostLink: the launcher's connection to the agent on one host: an ssh process, or on this machine the agent itself,
// whose standard streams carry the lines of host_protocol.hpp. One thread owns it.
#pragma once

#include <optional>
#include <string>

#include "paceline/launch/child.hpp"
#include "paceline/launch/crew.hpp"
#include "paceline/launch/line_reader.hpp"
#include "paceline/launch/outputs.hpp"
#include "paceline/launch/pipe_reader.hpp"
#include "paceline/launch/sink.hpp"

namespace paceline {

struct HostLinkOptions {
  std::string host;
  std::string way;       // the program that leads there: ssh
  std::string paceline;  // its path there
  std::string job;       // the line that is sent once the agent has greeted; it holds the secret
};

class HostLink {
 public:
  // The launcher's ends of the process's three standard streams.
  struct Streams {
    Descriptor input;
    Descriptor output;
    Descriptor errors;
  };
  HostLink(HostLinkOptions options, Child process, Streams streams, Outputs& outputs);
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  pid_t pid() const { return process_.pid(); }
  bool running() const { return process_.running(); }
  // It has reported a failure, which it sees to on its own host.
  bool failed() const { return failed_; }

  void watch(PollSet& set) const;
  void transfer(const PollSet& set);
  // True once, when the process has ended.
  bool reap();
  // The host's first failure, once.
  std::optional<Failure> take_failure();

  // To the workers of the host. Before there are any, one that asks to end ends the attempt to get there.
  void signal(int number);
  // Ends the process here. The agent then sees the end of its input.
  void kill() const;

 private:
  enum class State {
    connecting,  // the agent has not greeted
    working,     // it has the job
    ended,       // it has reported that all workers have ended
  };

  void take_output(std::string_view bytes);
  void take_errors(std::string_view bytes);
  void on_line(const std::string& line);
  void on_greeting(const std::string& version);
  void on_message(const std::string& line);
  void on_report(const std::string& line);
  void send(const std::string& line);
  void fail(Failure failure);
  void break_off(const std::string& sentence);
  Failure explain(const Ending& ending) const;
  std::string last_words(const Ending& ending) const;

  // Constant after construction, but for the job, which is forgotten when it has been sent.
  HostLinkOptions options_;
  Outputs& outputs_;

  Child process_;
  Descriptor input_;
  Sink orders_;
  PipeReader output_;
  PipeReader errors_;
  LineReader output_lines_;
  LineReader error_lines_;
  State state_ = State::connecting;
  std::string last_error_;  // the last line of the process's errors
  std::string last_noise_;  // of its output, before the greeting
  int asked_to_end_ = 0;    // the signal that ended the attempt to connect
  std::optional<Failure> failure_;
  bool failed_ = false;
};

}  // namespace paceline
