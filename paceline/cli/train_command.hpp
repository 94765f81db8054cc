// `paceline train`: checks everything that can be checked, then starts the workers, which are `paceline-train`, here or
// on several hosts. Started as a worker itself, by mpirun, srun or `paceline run`, it becomes one.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

void add_train_command(CLI::App& app, int& exit_code);

}  // namespace paceline
