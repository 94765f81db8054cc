#include "paceline/cli/predict_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "paceline/cli/worker_program.hpp"
#include "paceline/core/error.hpp"
#include "paceline/data/open.hpp"
#include "paceline/launch/cores.hpp"
#include "paceline/launch/pmix/started_by.hpp"
#include "paceline/torch/predict_config.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  PredictConfig config;
  int workers = 0;  // 0: not given, as for threads
  int threads = 0;
};

void refuse_if_started_elsewhere() {
  const StartedBy starter = started_by([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  if (starter != StartedBy::hand)
    throw Error(Code::invalid,
                "paceline predict starts its workers itself, on this machine; call it without mpirun, srun "
                "and `paceline run`");
}

void check_output(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  if (path.empty() || folder.empty() || fs::is_directory(folder)) return;
  throw Error(Code::invalid, fmt::format("there is no folder {} for --output", folder));
}

int predict_with(Arguments& a) {
  refuse_if_started_elsewhere();
  PredictConfig& config = a.config;
  const std::string program = torch_worker_program();
  check_output(config.output);
  const PredictData data = open_for_prediction(config, config_of_run(config.run));  // throws
  const std::size_t cores = allowed_cores().size();
  config.workers = a.workers > 0 ? a.workers : default_threads(cores, core_quota(), 1);
  if (static_cast<std::size_t>(config.workers) > data.examples.size())
    throw Error(Code::invalid, fmt::format("{} workers are more than the {} examples of {}", config.workers,
                                           data.examples.size(), data.name));
  RunOptions options = torch_worker_options();
  options.workers = config.workers;
  options.threads = a.threads > 0 ? a.threads : default_threads(cores, core_quota(), config.workers);
  options.command = {program, nlohmann::json({{kPredict, to_json(config)}}).dump()};
  options.inherit_output = true;
  return run_torch_workers(options);
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("predict", "Predict with the model of a training run: how good, and how quick");
  command->footer(
      "paceline predict runs/cnn-fashion-20261116-015631 --workers 2 --precision bf16 --output predicted.csv");
  auto arguments = std::make_shared<Arguments>();  // shared: the callback must be copyable
  PredictConfig& config = arguments->config;
  command->add_option("RUN", config.run, "The run folder")->required();
  command->add_option("--data", config.data,
                      "Its test part is predicted (default: the run's own data): " + data_help());
  command->add_option("-n,--workers", arguments->workers, "How many workers (default: one per core)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command->add_option("--threads", arguments->threads, "Cores per worker (default: cores / workers)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command->add_option("--batch", config.batch, "Examples that go through the model at once")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--precision",
          [&config](const std::string& word) {
            config.precision = word == "bf16" ? Precision::bf16 : word == "int8" ? Precision::int8 : Precision::fp32;
          },
          fmt::format("{} (default: fp32); int8 is of linear layers", fmt::join(precision_names(), ", ")))
      ->check(CLI::IsMember(precision_names()));
  command->add_flag("--force", config.force, "Also where a lower precision takes longer than fp32");
  command->add_option("--output", config.output, "Write example, label, predicted, probability as CSV")
      ->type_name("FILE");
  command->add_flag("--json", config.json, "One JSON line instead of text");
  command->callback([arguments, &exit_code] { exit_code = predict_with(*arguments); });
}

}  // namespace paceline
