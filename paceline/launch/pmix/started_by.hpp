// Which environment means what: who started this process. Pure.
#pragma once

#include "paceline/launch/environment.hpp"

namespace paceline {

enum class StartedBy {
  hand,      // a shell, a batch script, or a launcher of a single task: a job of one
  paceline,  // `paceline run`, or whoever sets PACELINE_RANK, PACELINE_SIZE, PACELINE_STORE
  pmix,      // mpirun, or srun with PMIx
};

// Throws Error{invalid} when this is one of several processes whose launcher cannot tell us the others. Taken for
// separate programs, they would be n jobs of one that all do the same work.
StartedBy started_by(const Lookup& lookup);

}  // namespace paceline
