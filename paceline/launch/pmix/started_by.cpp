#include "paceline/launch/pmix/started_by.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace paceline {
namespace {

bool all_set(std::initializer_list<const char*> names, const Lookup& lookup) {
  return std::ranges::all_of(names, [&](const char* name) { return lookup(name).has_value(); });
}

// The tasks of the Slurm step that this process is a task of, "1" if it is none: the shell of sbatch or salloc knows
// how many tasks there could be, but is in no step. Where salloc puts its shell into a step of its own, that has one
// task, whatever SLURM_NTASKS says; only SLURM_STEP_NUM_TASKS is about the step itself.
std::string slurm_tasks(const Lookup& lookup) {
  if (!all_set({"SLURM_STEP_ID", "SLURM_PROCID"}, lookup)) return "1";
  if (const auto tasks = lookup("SLURM_STEP_NUM_TASKS")) return *tasks;
  return lookup("SLURM_NTASKS").value_or("1");
}

void refuse_slurm_without_pmix(const Lookup& lookup) {
  const std::string tasks = slurm_tasks(lookup);
  if (tasks == "1") return;
  throw Error(Code::invalid,
              fmt::format("srun started {} tasks without PMIx, so that they cannot find each other: start them with "
                          "`srun --mpi=pmix` (`srun --mpi=list` says whether this Slurm has it)",
                          tasks));
}

// PMI 1 and 2, from before PMIx: the Hydra of MPICH and its descendants.
void refuse_pmi(const Lookup& lookup) {
  const std::string size = lookup("PMI_SIZE").value_or("1");
  if (size == "1" || !lookup("PMI_RANK")) return;
  throw Error(
      Code::invalid,
      fmt::format("the mpiexec that started these {} processes, MPICH's or one like it, does not speak PMIx, so "
                  "that they cannot find each other: start them with Open MPI's mpirun, `srun --mpi=pmix` or "
                  "`paceline run`",
                  size));
}

}  // namespace

StartedBy started_by(const Lookup& lookup) {
  for (const char* name : {"PACELINE_RANK", "PACELINE_SIZE", "PACELINE_STORE"}) {
    if (lookup(name)) return StartedBy::paceline;
  }
  if (all_set({"PMIX_NAMESPACE", "PMIX_RANK"}, lookup)) return StartedBy::pmix;
  refuse_slurm_without_pmix(lookup);
  refuse_pmi(lookup);
  return StartedBy::hand;
}

}  // namespace paceline
