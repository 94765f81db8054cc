// The environment that the launcher gives to a worker. Pure.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/error.hpp"

namespace paceline {

using EnvironmentList = std::vector<std::string>;  // NAME=value

// Empty if it is not set.
std::string variable(const EnvironmentList& environment, const std::string& name);

void remove_variable(EnvironmentList& environment, const std::string& name);
void set_variable(EnvironmentList& environment, const std::string& name, const std::string& value);

// What workers on other hosts get of the launcher's environment: PACELINE_*, UCX_* and OMP_*, but not what belongs to
// one worker, and the variables named `also`.
EnvironmentList variables_to_pass(const EnvironmentList& environment, const std::vector<std::string>& also);

struct WorkerVariables {
  Rank rank = 0;
  int size = 1;
  int servers = 0;  // processes that are servers; from rank `size` on, this is one of them
  std::string store;
  std::string job;  // marks all processes of the job
  std::string secret;
  int lifeline = -1;
  int threads = 1;
  bool override_threads = false;  // --threads was given: it wins over what the environment says
};
// `base`, the launcher's own environment, with what makes a worker of the program.
EnvironmentList worker_environment(EnvironmentList base, const WorkerVariables& variables);

}  // namespace paceline
