// Crew: those whom a launcher's loop looks after, be it the workers of this host or the agents of several.
#pragma once

#include <optional>
#include <string>

#include "paceline/core/clock.hpp"
#include "paceline/launch/poll_set.hpp"

namespace paceline {

// Why a job has to end.
struct Failure {
  std::string sentence;       // "rank 1 (pid 77) ended with exit code 42"
  int exit_code = 1;          // of the job
  bool is_cause = true;       // certainly no consequence of another failure: a death by signal, a start that failed
  bool others_remain = true;  // there are workers left to be ended
};

class Crew {
 public:
  virtual ~Crew() = default;

  virtual bool running() const = 0;
  virtual void watch(PollSet& set) const = 0;
  // Moves what is ready and looks who has ended. Returns a failure when one is to be acted on.
  virtual std::optional<Failure> progress(const PollSet& set) = 0;
  // When progress() wants to be called even if nothing becomes ready.
  virtual TimePoint deadline() const = 0;
  // To all workers.
  virtual void signal(int number) = 0;
};

}  // namespace paceline
