#include "paceline/launch/worker_environment.hpp"

#include <algorithm>

#include "paceline/launch/sweep.hpp"

namespace paceline {
namespace {

// OpenMP, OpenBLAS and MKL each have their own idea of how many threads are right, namely all cores for every process.
constexpr const char* kThreadVariables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};

auto find(const EnvironmentList& environment, const std::string& name) {
  const std::string start = name + "=";
  return std::find_if(environment.begin(), environment.end(),
                      [&](const std::string& entry) { return entry.starts_with(start); });
}

void set(EnvironmentList& environment, const std::string& name, const std::string& value) {
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  environment.push_back(name + "=" + value);
}

}  // namespace

std::string variable(const EnvironmentList& environment, const std::string& name) {
  const auto found = find(environment, name);
  return found == environment.end() ? std::string() : found->substr(name.size() + 1);
}

EnvironmentList worker_environment(EnvironmentList base, const WorkerVariables& variables) {
  set(base, "PACELINE_RANK", std::to_string(variables.rank));
  set(base, "PACELINE_SIZE", std::to_string(variables.size));
  set(base, "PACELINE_STORE", variables.store);
  set(base, kJobVariable, variables.job);
  set(base, "PACELINE_SECRET", variables.secret);
  set(base, "PACELINE_LIFELINE", std::to_string(variables.lifeline));
  for (const char* name : kThreadVariables) {
    const bool keep = !variables.override_threads && find(base, name) != base.end();
    if (!keep) set(base, name, std::to_string(variables.threads));
  }
  return base;
}

}  // namespace paceline
