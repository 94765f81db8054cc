#include "paceline/cli/train_command.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <sstream>

#include "paceline/cli/measure.hpp"
#include "paceline/cli/run_command.hpp"
#include "paceline/cli/train_worker.hpp"
#include "paceline/data/open.hpp"
#include "paceline/exchange/plan.hpp"
#include "paceline/launch/cores.hpp"
#include "paceline/launch/launcher.hpp"
#include "paceline/launch/worker_environment.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/record/checkpoint_files.hpp"
#include "paceline/torch/model_spec.hpp"
#include "paceline/torch/train_config.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  TrainConfig config;
  int threads = 0;
  int workers = 0;
  std::string until;
  std::string valid;
  std::string bucket;
};

void add_what(CLI::App& command, TrainArguments& a) {
  command.add_option("--model", a.config.model, model_help())->capture_default_str();
  command.add_option("--data", a.config.data, data_help())->capture_default_str();
  command.add_option("-n,--workers", a.workers, "How many workers (default: one per core)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command.add_option("--threads", a.threads, "Cores per worker (default: cores / workers)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command.add_option("--batch", a.config.batch, "Examples per worker and step")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--epochs", a.config.epochs, "Passes over the training set (default: 3, more for small sets)")
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--steps", a.config.steps, "Stop after this many steps")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--until", a.until,
                     "Stop when an epoch ends with accuracy=X or loss=X, of the held-out part or the test set");
  command.add_option("--valid", a.valid,
                     "Hold out this share of the training set, as 10%; it drives --until and --schedule");
  command.add_option("--seed", a.config.seed, "Of initial weights and the order of examples")->capture_default_str();
}

void add_how(CLI::App& command, TrainArguments& a) {
  command.add_option("--optimizer", a.config.optimizer, fmt::format("{}", fmt::join(optimizer_names(), ", ")))
      ->capture_default_str();
  command.add_option("--lr", a.config.lr, "Learning rate (default: the optimizer's)")
      ->check(CLI::Range(1e-12, 1e6))
      ->type_name("FLOAT");
  command.add_option("--weight-decay", a.config.weight_decay, "L2 penalty; of adamw, decoupled")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("FLOAT");
  command.add_option("--clip", a.config.clip, "Largest norm of the gradient")
      ->check(CLI::Range(1e-12, 1e12))
      ->type_name("FLOAT");
  command
      .add_option("--schedule", a.config.schedule,
                  fmt::format("Learning rate over time: {}", fmt::join(schedule_names(), ", ")))
      ->capture_default_str();
  for (const std::string names : {"--split", "--when,--sync", "--where,--comm", "--what,--compress"}) {
    const std::string key = names.substr(2, names.find(',') - 2);
    command.add_option_function<std::string>(
        names, [&a, key](const std::string& word) { a.config.plan.set(key, word); },
        fmt::format("Of the plan: {}", fmt::join(plan_words(key), ", ")));
  }
  command.add_option("--bucket", a.bucket, "Gradients that travel together, as 4MiB (default: by the cost model)");
  command
      .add_option("--check-every", a.config.check_every,
                  "Steps between comparisons of the workers' parameters; 0: never")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
}

void add_where_to(CLI::App& command, TrainArguments& a) {
  command.add_option("--out", a.config.out, "The run folder (default: runs/MODEL-DATA-TIME)")->type_name("DIR");
  command.add_flag("--resume", a.config.resume, "Go on from the newest checkpoint in the run folder");
  command
      .add_option("--checkpoint-every", a.config.checkpoint_every, "Steps between checkpoints (default: one per epoch)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--keep", a.config.keep, "How many checkpoints to keep")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_flag("--json", a.config.json, "One JSON line per epoch and a last one, instead of text");
  command.add_flag("--quiet", a.config.quiet, "Only the result");
}

std::string default_folder(const TrainConfig& config) {
  std::string name = fmt::format("{}-{}", config.model, config.data.substr(0, config.data.find(':')));
  for (char& c : name) c = c == ':' || c == ',' || c == '/' ? '-' : c;
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", name, fmt::localtime(std::time(nullptr)));
}

// Before config.json is written: a run that is refused stays as it was.
void check_checkpoints(const TrainConfig& config, const CheckpointFiles& checkpoints, std::uint64_t data_fingerprint) {
  std::string why = "there is none";
  const auto newest = checkpoints.load_latest([&](const std::string& sentence) { why = sentence; });
  if (!newest)
    throw Error(Code::invalid, fmt::format("no checkpoint in {}/checkpoint to resume from: {}", config.out, why));
  require_same_run(newest->path, newest->state, identity_of(config, data_fingerprint));
}

// A run is never overwritten, and one that is to be resumed must be there.
void check_folder(const TrainConfig& config, std::uint64_t data_fingerprint) {
  const CheckpointFiles checkpoints(config.out + "/checkpoint", config.keep);
  require_writable_folder(config.out);
  const bool used = fs::exists(config.out + "/metrics.jsonl") || !checkpoints.list().empty();
  if (used && !config.resume) {
    throw Error(Code::invalid,
                fmt::format("{} holds a run already; go on with it by --resume, or give another --out", config.out));
  }
  if (config.resume) check_checkpoints(config, checkpoints, data_fingerprint);
}

void complete(TrainArguments& a) {
  TrainConfig& config = a.config;
  if (config.resume && config.out.empty()) throw Error(Code::invalid, "--resume needs --out with the run's folder");
  if (!a.until.empty()) config.until = parse_target(a.until);
  if (!a.valid.empty()) config.valid = parse_share(a.valid);
  if (!a.bucket.empty()) config.bucket_bytes = parse_size(a.bucket);
  const int cores = static_cast<int>(allowed_cores().size());
  config.workers = a.workers > 0 ? a.workers : default_threads(static_cast<std::size_t>(cores), core_quota(), 1);
  config.threads =
      a.threads > 0 ? a.threads : default_threads(static_cast<std::size_t>(cores), core_quota(), config.workers);
  parse_model(config.model);  // before the data, which takes longer to read
  const DataSplit data = open_data(config.data);
  resolve(config, data);
  if (config.out.empty()) config.out = default_folder(config);
  check_folder(config, data.fingerprint);
  write_atomically(config.out + "/config.json", to_json(config).dump(2) + "\n");
}

std::string worker_program() {
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "paceline-train";
  if (fs::exists(beside)) return beside.string();
  throw Error(Code::invalid,
              fmt::format("{} is missing: this paceline was built without LibTorch (PACELINE_TORCH=OFF) and "
                          "cannot train",
                          beside.string()));
}

// What the workers' last line says, as an exit code: 128 + the signal that ended the run early.
int exit_code_of(const TrainConfig& config) {
  std::istringstream lines(read_file(config.out + "/metrics.jsonl"));
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  const auto json = nlohmann::json::parse(last, nullptr, false);
  const std::string reason = json.is_object() ? json.value("stop_reason", "") : "";
  const std::pair<const char*, int> signals[] = {{"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGUSR1", SIGUSR1}};
  for (const auto& [name, number] : signals) {
    if (reason.ends_with(name)) return 128 + number;
  }
  return 0;
}

int start_workers(const TrainConfig& config) {
  RunOptions options;
  options.command = {worker_program(), config.out + "/config.json"};
  options.environment = own_environment();
  // Large pages for large tensors: fewer misses of the TLB. The kernel gives them to those who ask; glibc asks if told
  // to.
  if (variable(options.environment, "GLIBC_TUNABLES").empty())
    options.environment.push_back("GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  options.workers = config.workers;
  options.threads = config.threads;
  options.inherit_output = true;
  options.follower_code = kFollowerExit;
  options.grace = std::chrono::milliseconds(1500);  // a worker that is still there then waits for nobody
  const int code = run(options);
  if (code == kFollowerExit) return 1;
  return code == 0 ? exit_code_of(config) : code;
}

int train_with(TrainArguments& arguments) {
  if (!variable(own_environment(), "PACELINE_RANK").empty())
    throw Error(Code::invalid, "paceline train starts its own workers; it cannot itself be a worker of `paceline run`");
  worker_program();
  complete(arguments);
  return start_workers(arguments.config);
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("train", "Train a model on the workers of this machine");
  command->footer("paceline train --model cnn --data fashion --workers 2 --until accuracy=0.9");
  auto arguments = std::make_shared<TrainArguments>();  // shared: the callback must be copyable
  add_what(*command, *arguments);
  add_how(*command, *arguments);
  add_where_to(*command, *arguments);
  command->callback([arguments, &exit_code] { exit_code = train_with(*arguments); });
}

}  // namespace paceline
