// `paceline train`: checks everything that can be checked, then starts the workers, which are `paceline-train`.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

void add_train_command(CLI::App& app, int& exit_code);

}  // namespace paceline
