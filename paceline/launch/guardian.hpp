// Guardian: a small process that outlives the launcher by a moment. When the launcher vanishes without a word (kill
// -9), it kills the process groups of all workers, so that also their children, who know nothing of a lifeline, end,
// and then whatever else carries the job's mark.
//
// Create it before anything whose descriptors it must not inherit. It holds no descriptor but its pipe.
#pragma once

#include <sys/types.h>

#include <string>

#include "paceline/fabric/descriptor.hpp"

namespace paceline {

class Guardian {
 public:
  explicit Guardian(const std::string& job);
  // Dismisses it: nothing is killed.
  ~Guardian();

  // A worker writes its own process id here, as an int, before it becomes the user's program: there is then no moment
  // in which it exists unknown to the guardian.
  int descriptor() const { return pipe_.number(); }
  // The worker's process group has ended, and its number may soon be another's.
  void forget(pid_t worker);

 private:
  Descriptor pipe_;
  pid_t process_ = -1;
};

}  // namespace paceline
