// Scheduler: what started this process and the others of its job (mpirun, srun), and what it does for us: it knows rank
// and size, and carries one short text from rank 0 to all.
//
// Not thread-safe. One in the life of a process: destroying it says good-bye to the launcher, for whom the process,
// whatever program it becomes, has then left the job. One that ends without having destroyed it has crashed, to mpirun,
// and the job with it: also one that calls _exit.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/launch/environment.hpp"

namespace paceline {

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual Rank rank() const = 0;
  virtual int size() const = 0;
  // A collective: all get what rank 0 gave; what the others give does not matter. Any bytes, at most kMaxShared; none
  // of them is shown or logged. Throws Error{timeout} naming who did not come, if that can be known, and
  // Error{peer_lost} if rank 0 has died. The death of another one may go unnoticed here.
  virtual std::string share(const std::string& from_rank_0, Duration timeout) = 0;

  static constexpr std::size_t kMaxShared = 65536;
};

// nullptr: this process was started by hand or by paceline. Throws Error{invalid}: it was started by something that
// cannot tell us the others (MPICH's mpiexec, srun without PMIx), or this build cannot understand it
// (PACELINE_PMIX=OFF). Throws Error{system}: the launcher does not answer.
std::unique_ptr<Scheduler> find_scheduler(const Lookup& lookup);

}  // namespace paceline
