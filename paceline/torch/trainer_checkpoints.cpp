// What a Trainer saves, and how it goes on from there.
#include <fmt/format.h>

#include <array>

#include "paceline/torch/model_files.hpp"
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
                {"bytes_sent", at_.bytes_before},
                {"rate", {rate.factor, rate.best, static_cast<double>(rate.worse)}}});
  return state;
}

// On rank 0; DataParallel brings model and optimizer to the others, share_position the rest.
void Trainer::restore(const Checkpoint& checkpoint) try {
  const nlohmann::json& s = checkpoint.state;
  require_same_run(checkpoint.path, s, identity_of(config_, data_.fingerprint));
  load_training(checkpoint, *model_.module, *optimizer_);
  go_to(s);
  // With another number of workers the streams of random numbers cannot be the same; they start anew.
  const auto generators = saved_generators(checkpoint);
  if (generators.size() == static_cast<std::size_t>(job_.size())) generators_ = generators;
} catch (const nlohmann::json::exception& error) {
  throw Error(Code::invalid, fmt::format("{} lacks what a resumed run needs: {}", checkpoint.path, error.what()));
}

void Trainer::go_to(const nlohmann::json& s) {
  s.at("epoch").get_to(at_.epoch);
  s.at("consumed").get_to(at_.consumed);
  s.at("step").get_to(at_.step);
  s.at("seconds").get_to(at_.seconds);
  s.at("bytes_sent").get_to(at_.bytes_before);
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
  const auto generators = allgather(parallel_->communicator(), generator_state(), {.name = "generators"});
  const std::uint64_t bytes = bytes_sent();
  if (job_.rank() == 0) {
    nlohmann::json now_at = state();
    now_at["bytes_sent"] = bytes;
    const TrainingArrays arrays(*model_.module, *optimizer_, generators);
    checkpoints_.save(at_.step, now_at, arrays.arrays());
  }
  saved_step_ = at_.step;
  record(Activity::save, start, now() - start);
}

}  // namespace paceline
