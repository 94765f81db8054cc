// The options by which a command says on which hosts its workers run and how they reach each other: the same for run,
// train and doctor.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "paceline/launch/launcher.hpp"

namespace paceline {

struct HostArguments {
  std::string hosts;
  std::string host_file;
  std::string address;
  std::string ssh;
  std::string remote_paceline;
  std::vector<std::string> variables;  // NAME or NAME=value
  std::string ports;
  std::string device;
  double silence_seconds = 0;  // 0: not given, as for the next
  int split_host = 0;
  std::string link;

  bool several() const { return !hosts.empty() || !host_file.empty(); }
};

void add_host_options(CLI::App& command, HostArguments& arguments);

// Into options.environment, which must be there already, ports, workers and remote. `workers`: what was asked for, if
// it was. Throws Error{invalid}.
void take_host_options(const HostArguments& arguments, std::optional<int> workers, RunOptions& options);

}  // namespace paceline
