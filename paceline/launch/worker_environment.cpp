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

constexpr const char* kPassedPrefixes[] = {"PACELINE_", "UCX_", "OMP_"};
constexpr const char* kOfOneWorker[] = {"PACELINE_RANK",   "PACELINE_SIZE",     "PACELINE_SERVERS", "PACELINE_STORE",
                                        "PACELINE_SECRET", "PACELINE_LIFELINE", kJobVariable};

bool is_passed(const std::string& name, const std::vector<std::string>& also) {
  if (std::find(std::begin(kOfOneWorker), std::end(kOfOneWorker), name) != std::end(kOfOneWorker)) return false;
  if (std::find(also.begin(), also.end(), name) != also.end()) return true;
  return std::any_of(std::begin(kPassedPrefixes), std::end(kPassedPrefixes),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace

void remove_variable(EnvironmentList& environment, const std::string& name) {
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

void set_variable(EnvironmentList& environment, const std::string& name, const std::string& value) {
  remove_variable(environment, name);
  environment.push_back(name + "=" + value);
}

EnvironmentList variables_to_pass(const EnvironmentList& environment, const std::vector<std::string>& also) {
  EnvironmentList passed;
  for (const std::string& entry : environment) {
    if (is_passed(entry.substr(0, entry.find('=')), also)) passed.push_back(entry);
  }
  return passed;
}

std::string variable(const EnvironmentList& environment, const std::string& name) {
  const auto found = find(environment, name);
  return found == environment.end() ? std::string() : found->substr(name.size() + 1);
}

EnvironmentList worker_environment(EnvironmentList base, const WorkerVariables& variables) {
  set_variable(base, "PACELINE_RANK", std::to_string(variables.rank));
  set_variable(base, "PACELINE_SIZE", std::to_string(variables.size));
  // A launcher may itself be a worker of a job that has servers.
  remove_variable(base, "PACELINE_SERVERS");
  if (variables.servers > 0) set_variable(base, "PACELINE_SERVERS", std::to_string(variables.servers));
  set_variable(base, "PACELINE_STORE", variables.store);
  set_variable(base, kJobVariable, variables.job);
  set_variable(base, "PACELINE_SECRET", variables.secret);
  set_variable(base, "PACELINE_LIFELINE", std::to_string(variables.lifeline));
  for (const char* name : kThreadVariables) {
    const bool keep = !variables.override_threads && find(base, name) != base.end();
    if (!keep) set_variable(base, name, std::to_string(variables.threads));
  }
  return base;
}

}  // namespace paceline
