// `paceline run -n 4 PROGRAM ARGS…`: starts a job on this machine, or with --hosts on several.
#pragma once

#include <CLI/App.hpp>

#include "paceline/launch/worker_environment.hpp"

namespace paceline {

// This process's environment, as workers get it.
EnvironmentList own_environment();

// Adds the subcommand. When it was chosen, parsing `app` runs the job and stores its exit code.
void add_run_command(CLI::App& app, int& exit_code);

}  // namespace paceline
