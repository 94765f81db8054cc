// A Trainer on a stream: distributed online mini-batches (Dekel, Gilad-Bachrach, Shamir & Xiao 2012). The stream is the
// training set, in each epoch's order, over and over. An epoch is over when all of its inputs have arrived.
#include <algorithm>
#include <utility>

#include "paceline/torch/trainer_state.hpp"

namespace paceline {

// This rank's part of the inputs, which may reach into the next epoch.
void Trainer::fill_from_stream(Batch& batch, const InputRange& inputs) {
  const auto set = static_cast<std::int64_t>(data_.train.size());
  const Range part = share_of(static_cast<std::size_t>(inputs.size()), job_.size(), job_.rank());
  std::vector<std::uint32_t> examples;
  for (std::int64_t i = inputs.first + static_cast<std::int64_t>(part.first);
       i < inputs.first + static_cast<std::int64_t>(part.last); ++i) {
    const int epoch = static_cast<int>(i / set);
    if (epoch != std::exchange(stream_epoch_, epoch)) stream_.begin_epoch(epoch);
    examples.push_back(stream_.indices(0, 0)[static_cast<std::size_t>(i % set)]);
  }
  fill(batch, data_.train, data_.normalisation, examples);
  batch.global_size = static_cast<std::size_t>(inputs.size());
}

// What has come while the sum travelled: predicted with the model from before the update.
Tally Trainer::predict_passed(const InputRange& inputs) {
  const torch::NoGradGuard no_grad;
  const Form& form = data_.train.form();
  model_.module->eval();
  Tally tally;
  for (std::int64_t first = inputs.first; first < inputs.last; first += config_.micro_batch) {
    Batch batch;
    fill_from_stream(batch, {first, std::min<std::int64_t>(inputs.last, first + config_.micro_batch)});
    if (batch.size() == 0) continue;
    const torch::Tensor answers = answers_of(batch, form);
    const torch::Tensor outputs = model_.forward(inputs_of(batch, form)).to(torch::kFloat);
    tally += tally_of(loss_of(outputs, answers, form), outputs, answers, form);
  }
  model_.module->train();
  return tally;
}

// Between backward and the update. Times are the mean over the ranks, so that all let the same inputs pass.
void Trainer::let_inputs_pass(const Tally& learned, Duration computed) {
  const TimePoint start = now();
  parallel_->finish();
  std::vector<double> times = {seconds(computed), seconds(now() - start)};
  parallel_->communicator().allreduce(view(times), ReduceOp::average, {.name = "times of a step"});
  const auto duration = [](double s) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s)); };
  const Tally passed = predict_passed(online_->passed(duration(times[0]), duration(times[1])));
  const double predictions = data_.train.form().predictions();
  std::vector<double> lost = {learned.loss / predictions, passed.loss / predictions};
  parallel_->communicator().allreduce(view(lost), ReduceOp::sum, {.name = "losses of the stream"});
  online_->count_losses(lost[0], lost[1]);
}

void Trainer::train_online_epoch() {
  const auto set = static_cast<std::int64_t>(data_.train.size());
  model_.module->train();
  step_began_ = now();
  while (!stopping()) {
    const InputRange inputs = online_->next();
    if (inputs.first >= set * (at_.epoch + 1)) {
      at_.consumed = data_.train.size();
      return;
    }
    Batch batch;
    fill_from_stream(batch, inputs);
    batch.consumed = static_cast<std::size_t>(inputs.first - set * at_.epoch);
    train_step(batch);
    if (config_.steps > 0 && at_.step >= config_.steps && !stopping()) stop_reason_ = "all steps done";
  }
}

}  // namespace paceline
