// What a Trainer saves, and how it goes on from there.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "paceline/torch/model_files.hpp"
#include "paceline/torch/table_files.hpp"
#include "paceline/torch/tensor_collectives.hpp"
#include "paceline/torch/trainer_state.hpp"

namespace paceline {

Checkpoint Trainer::newest_checkpoint() {
  auto newest =
      checkpoints_.load_latest([](const std::string& sentence) { fmt::print(stderr, "paceline: {}\n", sentence); });
  if (newest) return std::move(*newest);
  throw Error(Code::invalid, fmt::format("there is no good checkpoint in {}/checkpoint to resume from", config_.out));
}

nlohmann::json Trainer::state() const {
  const LearningRate::State& rate = rate_->state();
  nlohmann::json state = identity_of(config_, data_.fingerprint);
  state.update({{"workers", job_.size()},
                {"epoch", at_.epoch},
                {"consumed", at_.consumed},
                {"step", at_.step},
                {"seconds", at_.seconds},
                {"tally", {at_.tally.loss, at_.tally.correct, at_.tally.predictions}},
                {"bytes_sent", at_.before.all},
                {"bytes_between_hosts", at_.before.between_hosts},
                {"bytes_between_sites", at_.before.between_sites},
                {"rate", {rate.factor, rate.best, static_cast<double>(rate.worse)}}});
  return state;
}

// On rank 0; DataParallel brings model and optimizer to the others, share_position the rest.
void Trainer::restore(const Checkpoint& checkpoint) try {
  const nlohmann::json& s = checkpoint.state;
  require_same_run(checkpoint.path, s, identity_of(config_, data_.fingerprint));
  load_training(checkpoint, *model_.module, *optimizer_);
  restored_rows_ = checkpoint.rows;
  go_to(s);
  // With another number of workers the streams of random numbers cannot be the same; they start anew.
  const auto generators = saved_generators(checkpoint);
  if (generators.size() == static_cast<std::size_t>(job_.size())) generators_ = generators;
} catch (const nlohmann::json::exception& error) {
  throw Error(Code::invalid, fmt::format("{} lacks what a resumed run needs: {}", checkpoint.path, error.what()));
}

// All that only servers have: what their optimizers remember, and the rows of the model's tables.
std::vector<Table> Trainer::saved_tables() {
  std::vector<Table> tables = parallel_->server_tables();
  if (tables_) {
    for (const Table& table : model_.tables->tables()) tables.push_back(table);
  }
  return tables;
}

void Trainer::restore_rows() {
  const std::vector<Table> tables = saved_tables();
  std::vector<std::string> missing;
  if (!restored_rows_.empty()) {
    missing = restore_tables(restored_rows_, tables);
  } else {
    for (const Table& table : tables) missing.push_back(table.spec().name);
  }
  for (const std::string& name : tables_ ? model_.tables->names() : std::vector<std::string>()) {
    if (std::find(missing.begin(), missing.end(), name) != missing.end())
      throw Error(Code::invalid, fmt::format("the checkpoint in {} lacks the rows of table '{}'", config_.out, name));
  }
  forgotten_ = !missing.empty();
}

void Trainer::go_to(const nlohmann::json& s) {
  s.at("epoch").get_to(at_.epoch);
  s.at("consumed").get_to(at_.consumed);
  s.at("step").get_to(at_.step);
  s.at("seconds").get_to(at_.seconds);
  s.at("bytes_sent").get_to(at_.before.all);
  at_.before.between_hosts = s.value("bytes_between_hosts", std::uint64_t{0});
  at_.before.between_sites = s.value("bytes_between_sites", std::uint64_t{0});
  const auto tally = s.at("tally").get<std::array<double, 3>>();
  at_.tally = {tally[0], tally[1], tally[2]};
  const auto rate = s.at("rate").get<std::array<double, 3>>();
  rate_->restore({rate[0], rate[1], static_cast<int>(rate[2])});
}

// What rank 0 has restored, on all ranks.
void Trainer::share_position() {
  Communicator& communicator = parallel_->communicator();
  std::string text = job_.rank() == 0 ? state().dump() : std::string();
  broadcast(communicator, text, 0, {.name = "position"});
  go_to(nlohmann::json::parse(text));
  parallel_->set_steps(at_.step);
  if (config_.resume) saved_step_ = at_.step;  // on all ranks, for all of them save or none does
  generators_.resize(static_cast<std::size_t>(job_.size()));
  for (std::string& generator : generators_) broadcast(communicator, generator, 0, {.name = "generators"});
  const std::string& own = generators_[static_cast<std::size_t>(job_.rank())];
  if (!own.empty()) set_generator_state(own);
}

void Trainer::save_checkpoint() {
  if (saved_step_ == at_.step) return;
  const TimePoint start = now();
  drain();
  parallel_->sync_buffers();
  parallel_->sync_optimizer();
  // Servers keep what they have now; then all go on, and this rank reads it while they push.
  std::optional<TablesSnapshot> rows;
  if (const auto tables = saved_tables(); job_.rank() == 0 && !tables.empty()) rows.emplace(tables);
  const auto generators = allgather(parallel_->communicator(), generator_state(), {.name = "generators"});
  const Sent bytes = sent();
  if (job_.rank() == 0) {
    nlohmann::json now_at = state();
    now_at["bytes_sent"] = bytes.all;
    now_at["bytes_between_hosts"] = bytes.between_hosts;
    now_at["bytes_between_sites"] = bytes.between_sites;
    std::string checksum;
    if (rows) {
      RowsFileWriter file = checkpoints_.begin_rows(at_.step);
      rows->write(file);
      checksum = file.publish();
    }
    const TrainingArrays arrays(*model_.module, *optimizer_, generators);
    checkpoints_.save(at_.step, now_at, arrays.arrays(), checksum);
  }
  saved_step_ = at_.step;
  record(Activity::save, start, now() - start);
}

}  // namespace paceline
