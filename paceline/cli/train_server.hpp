// `paceline train-server PLAN`: one server of `paceline train --where server:N --servers-on HOSTS`, which starts it.
// Hidden. It needs no LibTorch, and ends when all workers have left or died.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

inline constexpr const char* kTrainServer = "train-server";

void add_train_server_command(CLI::App& app, int& exit_code);

}  // namespace paceline
