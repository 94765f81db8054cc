// find_scheduler of a build without PMIx.
#include "paceline/launch/pmix/started_by.hpp"
#include "paceline/launch/scheduler.hpp"

namespace paceline {

std::unique_ptr<Scheduler> find_scheduler(const Lookup& lookup) {
  if (started_by(lookup) != StartedBy::pmix) return nullptr;
  throw Error(
      Code::invalid,
      "mpirun or srun started this process, but this paceline was built without PMIx (PACELINE_PMIX=OFF): start "
      "it with `paceline run`, or build it with PACELINE_PMIX=ON");
}

}  // namespace paceline
