// JobLoop: the event loop of a launcher and of a host agent, from the start of the workers to the end of the last. It
// passes signals and output on and ends the job when its crew reports a failure. Single-threaded.
#pragma once

#include <functional>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/launch/crew.hpp"
#include "paceline/launch/outputs.hpp"
#include "paceline/launch/signals.hpp"

namespace paceline {

class JobLoop {
 public:
  struct Parts {
    const Clock& clock;
    Signals& signals;
    Crew& crew;
    Outputs& outputs;
    Duration grace;                                        // from SIGTERM to SIGKILL
    bool stops_with_workers;                               // SIGTSTP stops this process as well
    std::function<void(const Failure& failure)> announce;  // told the job's first failure
    std::function<void()> at_end = {};                     // called when the last worker has ended
  };
  explicit JobLoop(Parts parts) : parts_(std::move(parts)) {}

  // `progress` is called whenever the descriptor is readable, until it returns false.
  void add_source(int descriptor, std::function<bool()> progress);
  // Returns the job's exit code.
  int run();

  // What a signal to this process does, for signals that come by another way.
  void on_signal(int number);
  // The job could not be started: announces that and kills who has been.
  void fail_to_start(const Failure& failure);
  void kill_all();

 private:
  struct Source {
    int descriptor;
    std::function<bool()> progress;
  };
  enum class Phase {
    running,  // all is well
    ending,   // a worker has failed: the others have had SIGTERM
    killing,  // they have had SIGKILL
  };

  void step();
  void on_interrupt();
  void abandon_output(int exit_code);
  void on_failure(const Failure& failure);
  void check_output();
  void end_job(int exit_code);

  Parts parts_;
  std::vector<Source> sources_;
  Phase phase_ = Phase::running;
  TimePoint kill_at_ = kNever;
  int exit_code_ = 0;
  int interrupts_ = 0;
};

}  // namespace paceline
