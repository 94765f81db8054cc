#include "paceline/torch/run_folder.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/record/checkpoint_files.hpp"

namespace paceline {
namespace {

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
  const bool used = std::filesystem::exists(config.out + "/metrics.jsonl") || !checkpoints.list().empty();
  if (used && !config.resume) {
    throw Error(Code::invalid,
                fmt::format("{} holds a run already; go on with it by --resume, or give another --out", config.out));
  }
  if (config.resume) check_checkpoints(config, checkpoints, data_fingerprint);
}

}  // namespace

void settle(TrainConfig& config, const DataSplit& data) {
  resolve(config, data);
  if (config.out.empty()) config.out = default_folder(config);
  check_folder(config, data.fingerprint);
  write_atomically(config.out + "/config.json", to_json(config).dump(2) + "\n");
}

}  // namespace paceline
