// The options of `paceline train`, and what their words alone say.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "paceline/cli/host_options.hpp"
#include "paceline/torch/train_config.hpp"

namespace paceline {

struct TrainArguments {
  TrainConfig config;
  int threads = 0;  // 0: not given, as for workers
  int workers = 0;
  std::string batch = "64";
  std::string until;
  std::string valid;
  std::string bucket;
  std::string participate;
  std::optional<std::string> servers_on;
  HostArguments hosts;
};

void add_train_options(CLI::App& command, TrainArguments& arguments);

// Into arguments.config, all but the number of workers. Throws Error{invalid}.
void read_words(TrainArguments& arguments);

}  // namespace paceline
