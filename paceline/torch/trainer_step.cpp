// One step of a Trainer: forward, backward, update, and what is told of it.
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "paceline/torch/trainer_state.hpp"

namespace paceline {
namespace {

void set_lr(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

double distance_from_zero(const std::vector<torch::Tensor>& parameters) {
  double squares = 0;
  for (const torch::Tensor& parameter : parameters) squares += parameter.detach().square().sum().item<double>();
  return std::sqrt(squares);
}

}  // namespace

void Trainer::train_step(const Batch& batch) {
  const TimePoint start = now();
  const ParallelTimes before = parallel_->times();
  const Duration waited_for_rows = tables_ ? model_.tables->waited() : Duration{};
  set_lr(*optimizer_, rate_->at(at_.step));
  if (theory_) farthest_ = std::max(farthest_, distance_from_zero(model_.module->parameters()));
  const bool takes_part = parallel_->takes_part();
  Tally tally;
  if (takes_part) tally = forward_backward(batch);
  lag(start);
  const TimePoint computed = now();
  const Duration in_backward = parallel_->times().communicate - before.communicate;
  if (parts_) look_at_gradient();
  if (online_) let_inputs_pass(tally, computed - start);
  if (takes_part) clip();
  parallel_->note_loss(tally.mean_loss());
  parallel_->step();
  for (const std::string& remark : parallel_->take_remarks()) journal_->remark(remark);
  const ParallelTimes after = parallel_->times();
  record(Activity::compute, start, computed - start);
  const Duration for_rows = (tables_ ? model_.tables->waited() : Duration{}) - waited_for_rows;
  const double compute = seconds(computed - start - in_backward - for_rows);
  compute_seconds_ += compute;
  times_.in(Activity::compute) += compute;
  times_.in(Activity::communicate) += seconds(after.communicate - before.communicate);
  times_.in(Activity::wait) += seconds(after.wait - before.wait + for_rows);
  times_.in(Activity::update) += seconds(after.update - before.update);
  ++at_.step;
  at_.consumed = batch.consumed;
  count_step(tally);
  agree_now_and_then();
  tell_progress();
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
                              answers.narrow(0, first * form.predictions(), count * form.predictions()), weight,
                              first + count < size ? Part::earlier : Part::last);
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

// A worker with a handicap has computed for a while and sleeps as much longer.
void Trainer::lag(TimePoint start) {
  const double extra = handicap_.extra(at_.step, job_.rank(), job_.size(), config_.seed);
  if (extra > 0) std::this_thread::sleep_for(std::chrono::duration<double>(extra * seconds(now() - start)));
}

void Trainer::clip() {
  if (config_.clip > 0) parallel_->clip_grad_norm(config_.clip);
}

// Of gradients that are applied late: all of them, before the model is looked at or saved.
void Trainer::drain() {
  if (tables_) model_.tables->flush();
  parallel_->drain([this] { clip(); });
}

Tally Trainer::forward_backward(const torch::Tensor& inputs, const torch::Tensor& answers, double weight, Part part) {
  const Form& form = data_.train.form();
  torch::Tensor outputs;
  {
    const ComputeIn numbers(precision_);
    outputs = model_.forward(inputs);
  }
  outputs = outputs.to(torch::kFloat);
  torch::Tensor loss = loss_of(outputs, answers, form);
  if (part == Part::last) prefetch_rows();
  (weight == 1 ? loss : loss * weight).backward();
  return tally_of(loss, outputs, answers, form);
}

// Those of the next batch's first part travel while this one's last goes backward.
void Trainer::prefetch_rows() {
  const Batch* next = tables_ ? loader_->peek() : nullptr;
  if (next == nullptr || next->size() == 0) return;
  const Form& form = data_.train.form();
  const auto count = std::min<std::int64_t>(config_.micro_batch, static_cast<std::int64_t>(next->size()));
  model_.tables->prefetch(inputs_of(*next, form).narrow(0, 0, count).narrow(1, 0, form.keys));
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
