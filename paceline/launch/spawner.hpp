// Spawner: what all children of a launcher have in common. It holds the job's mark, the guardian and the launcher's
// signals, and starts children under them. Make it before anything whose descriptors the guardian must not inherit.
// When it goes, so does every process that carries the mark.
#pragma once

#include <string>

#include "paceline/launch/descriptors.hpp"
#include "paceline/launch/guardian.hpp"
#include "paceline/launch/proof.hpp"
#include "paceline/launch/signals.hpp"
#include "paceline/launch/spawn.hpp"

namespace paceline {

class Spawner {
 public:
  Spawner();
  ~Spawner();

  // The value of PACELINE_JOB for all children.
  const std::string& job() const { return job_; }
  Signals& signals() { return signals_; }
  // For children that get no input.
  int null() const { return null_.number(); }
  // `options` without guardian, signal_mask and open_files.
  Spawned spawn(SpawnOptions options);
  // The child has been reaped.
  void forget(pid_t child) { guardian_.forget(child); }

 private:
  const std::string job_ = hex(random_bytes(16));
  Guardian guardian_{job_};
  Signals signals_;
  rlimit open_files_ = raise_open_files();
  Descriptor null_;
};

// "cannot start ./train: Permission denied": why `file`, found for `program`, did not start.
std::string explain_start_failure(const std::string& program, const std::string& file, int error);
// As a shell has it: 127 for a program that is not there, else 126.
int start_failure_code(int error);

}  // namespace paceline
