// One step of a Trainer: forward, backward, update, and the agreement after it.
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/torch/trainer_state.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kWarmUpSteps = 5;  // not counted in samples/s

void set_lr(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

}  // namespace

void Trainer::train_step(const Batch& batch) {
  const TimePoint start = now();
  const ParallelTimes before = parallel_->times();
  set_lr(*optimizer_, rate_->at(at_.step));
  Tally tally = forward_backward(batch);
  const TimePoint computed = now();
  const Duration in_backward = parallel_->times().communicate - before.communicate;
  if (parts_) look_at_gradient();
  if (online_) let_inputs_pass(tally, computed - start);
  clip();
  parallel_->step();
  const ParallelTimes after = parallel_->times();
  record(Activity::compute, start, computed - start);
  const double compute = seconds(computed - start - in_backward);
  compute_seconds_ += compute;
  times_.in(Activity::compute) += compute;
  times_.in(Activity::communicate) += seconds(after.communicate - before.communicate);
  times_.in(Activity::wait) += seconds(after.wait - before.wait);
  times_.in(Activity::update) += seconds(after.update - before.update);
  ++at_.step;
  at_.consumed = batch.consumed;
  agree(tally);
  parallel_->lend();  // which the agreement has taken back
}

// Gradients of the mean over all workers' examples: a part's mean counts by its share of them. Of full batches that is
// a factor of one. A batch that is too large for memory goes through the model in parts.
Tally Trainer::forward_backward(const Batch& batch) {
  // To none: backward then hands its gradients over, and copying them into the arena costs half of what zeroing the old
  // ones and adding to them would.
  model_.module->zero_grad(true);
  if (parts_) parts_->begin();
  if (batch.size() == 0) return {};
  const Form& form = data_.train.form();
  const torch::Tensor inputs = inputs_of(batch, form);
  const torch::Tensor answers = answers_of(batch, form);
  const auto size = static_cast<std::int64_t>(batch.size());
  Tally tally;
  for (std::int64_t first = 0; first < size; first += config_.micro_batch) {
    const std::int64_t count = std::min<std::int64_t>(config_.micro_batch, size - first);
    const double weight = static_cast<double>(count) * job_.size() / static_cast<double>(batch.global_size);
    std::optional<DataParallel::NoSync> quiet;
    if (parts_ || first + count < size) quiet.emplace(*parallel_);
    tally += forward_backward(inputs.narrow(0, first, count),
                              answers.narrow(0, first * form.predictions(), count * form.predictions()), weight);
    if (parts_) parts_->after_part({.examples = count, .weight = weight});
  }
  return tally;
}

// The parts of this rank's batch have been seen, and none of it has left yet.
void Trainer::look_at_gradient() {
  parallel_->finish();
  if (statistics_) statistics_->end_step(parallel_->communicator());
  if (noise_) noise_->add(parallel_->communicator(), at_.step);
}

void Trainer::clip() {
  if (config_.clip > 0) parallel_->clip_grad_norm(config_.clip);
}

// Of gradients that are applied late: all of them, before the model is looked at or saved.
void Trainer::drain() {
  parallel_->drain([this] { clip(); });
}

Tally Trainer::forward_backward(const torch::Tensor& inputs, const torch::Tensor& answers, double weight) {
  const Form& form = data_.train.form();
  torch::Tensor outputs;
  {
    const ComputeIn numbers(precision_);
    outputs = model_.forward(inputs);
  }
  outputs = outputs.to(torch::kFloat);
  torch::Tensor loss = loss_of(outputs, answers, form);
  (weight == 1 ? loss : loss * weight).backward();
  return tally_of(loss, outputs, answers, form);
}

// See Note [Steps and agreement].
void Trainer::agree(Tally& tally) {
  // From the end of the last agreement's own measurement to here: all that a step costs, agreement included.
  const TimePoint end = now();
  const Duration whole_step = end - std::exchange(step_began_, end);
  const auto values = agreement_.as<double>();
  std::fill(values.begin(), values.end(), 0.0);
  values[0] = tally.loss;
  values[1] = tally.correct;
  values[2] = tally.predictions;
  values[3] = seconds(whole_step);
  const std::size_t first_signal = 4;
  const std::size_t first_share = first_signal + StopSignals::kCount;
  if (const int signal = signals_.pending(); signal >= 0) values[first_signal + static_cast<std::size_t>(signal)] = 1;
  values[first_share + static_cast<std::size_t>(job_.rank())] = times_.wait_share();
  parallel_->communicator().allreduce(view(values), ReduceOp::sum, {.name = "step"});
  tally = {values[0], values[1], values[2]};
  const double duration = values[3] / job_.size();
  for (std::size_t r = 0; r < wait_shares_.size(); ++r) wait_shares_[r] = static_cast<float>(values[first_share + r]);
  for (int i = 0; i < StopSignals::kCount; ++i) {
    if (values[first_signal + static_cast<std::size_t>(i)] == 0) continue;
    stop_reason_ = "interrupted by " + StopSignals::name(i);
    stop_signal_ = StopSignals::number(i);
  }
  at_.seconds += duration;
  for (Tally* sum : {&at_.tally, &point_}) {
    *sum += tally;
  }
  if (++steps_here_ > kWarmUpSteps) {
    for (Rate* rate : {&epoch_rate_, &run_rate_, &point_rate_}) {
      rate->examples += tally.predictions / data_.train.form().predictions();
      rate->seconds += duration;
    }
  }
  tell_progress();
}

void Trainer::tell_progress() {
  constexpr double kPointSeconds = 0.5;
  if (point_rate_.seconds > kPointSeconds) {
    journal_->add_point({.step = at_.step,
                         .seconds = at_.seconds,
                         .loss = point_.mean_loss(),
                         .samples_per_s = point_rate_.per_second(),
                         .wait_shares = wait_shares_});
    point_ = {};
    point_rate_ = {};
  }
  journal_->tell_progress(now(), [&] {
    const std::int64_t steps = steps_per_epoch(config_, data_.train.size());
    const double per_step = at_.seconds / static_cast<double>(std::max<std::int64_t>(1, at_.step));
    const std::int64_t slice = config_.global_batch(data_.train.size());
    return Progress{.epoch = at_.epoch + 1,
                    .epochs = config_.epochs,
                    .step = (static_cast<std::int64_t>(at_.consumed) + slice - 1) / slice,
                    .steps = steps,
                    .samples_per_s = run_rate_.per_second(),
                    .loss = at_.tally.mean_loss(),
                    .accuracy = at_.tally.accuracy(),
                    .seconds_left = per_step * static_cast<double>(total_steps() - at_.step),
                    .wait_shares = wait_shares_,
                    .score = score()};
  });
}

void Trainer::record(Activity activity, TimePoint start, Duration length) {
  trace_.add({.start = start, .length = length, .step = at_.step, .activity = activity});
}

}  // namespace paceline
