// What the ranks of a Trainer tell each other about their steps: Note [Steps and agreement] in trainer_state.hpp.
#include <algorithm>
#include <chrono>
#include <utility>

#include "paceline/torch/trainer_state.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kWarmUpSteps = 5;                           // not counted in samples/s
constexpr std::int64_t kStepsPerSum = 16;                          // where ranks wait for neighbours only
constexpr Duration kBetweenSums = std::chrono::milliseconds(250);  // where they wait for nobody

// Where things are in the vector that is added up.
constexpr std::size_t kLoss = 0, kCorrect = 1, kPredictions = 2, kSeconds = 3, kTimedExamples = 4, kTimedSeconds = 5;
constexpr std::size_t kFirstSignal = 6;
constexpr std::size_t kFirstShare = kFirstSignal + StopSignals::kCount;

}  // namespace

std::size_t Trainer::agreement_bytes() const {
  return sizeof(double) * (kFirstShare + static_cast<std::size_t>(job_.size()));
}

void Trainer::count_step(const Tally& tally) {
  // From the end of the last step's own measurement to here: all that a step costs, agreement included.
  const TimePoint end = now();
  const double took = seconds(end - std::exchange(step_began_, end));
  own_.tally += tally;
  own_.seconds += took;
  ++own_.steps;
  if (++steps_here_ <= kWarmUpSteps) return;
  own_.timed.examples += tally.predictions / data_.train.form().predictions();
  own_.timed.seconds += took;
}

void Trainer::agree_now_and_then() {
  switch (config_.plan.coupling()) {
    case Coupling::all:
      if (parallel_->met()) agree();
      return;
    case Coupling::neighbours:
      if (at_.step % kStepsPerSum != 0) return;
      if (under_way_) end_agreement();
      if (!stopping()) begin_agreement();
      return;
    case Coupling::none:
      if (under_way_ && agreeing_.test()) end_agreement();
      if (!under_way_ && now() - last_agreement_ > kBetweenSums) begin_agreement();
      return;
  }
}

void Trainer::agree() {
  begin_agreement();
  end_agreement();
}

void Trainer::begin_agreement() {
  const auto values = agreement_.as<double>();
  std::fill(values.begin(), values.end(), 0.0);
  values[kLoss] = own_.tally.loss;
  values[kCorrect] = own_.tally.correct;
  values[kPredictions] = own_.tally.predictions;
  values[kSeconds] = own_.seconds;
  values[kTimedExamples] = own_.timed.examples;
  values[kTimedSeconds] = own_.timed.seconds;
  if (const int signal = signals_.pending(); signal >= 0) values[kFirstSignal + static_cast<std::size_t>(signal)] = 1;
  values[kFirstShare + static_cast<std::size_t>(job_.rank())] = times_.wait_share();
  own_ = {};
  last_agreement_ = now();
  agreeing_ = agreements_.start_allreduce(view(values), ReduceOp::sum, {.name = "step"});
  under_way_ = true;
  ++agreed_;
}

void Trainer::end_agreement() {
  agreeing_.wait();
  under_way_ = false;
  const auto values = agreement_.as<double>();
  const Tally tally{values[kLoss], values[kCorrect], values[kPredictions]};
  for (std::size_t r = 0; r < wait_shares_.size(); ++r) wait_shares_[r] = static_cast<float>(values[kFirstShare + r]);
  for (int i = 0; i < StopSignals::kCount; ++i) {
    if (values[kFirstSignal + static_cast<std::size_t>(i)] == 0) continue;
    stop_reason_ = "interrupted by " + StopSignals::name(i);
    stop_signal_ = StopSignals::number(i);
  }
  at_.seconds += values[kSeconds] / job_.size();
  for (Tally* sum : {&at_.tally, &point_, &whole_}) *sum += tally;
  for (Rate* rate : {&epoch_rate_, &run_rate_, &point_rate_}) {
    rate->examples += values[kTimedExamples];
    rate->seconds += values[kTimedSeconds] / job_.size();
  }
}

// Before the ranks do anything together, each of them calls this once. Afterwards all have seen the same.
void Trainer::settle_agreement() {
  const Coupling coupling = config_.plan.coupling();
  if (coupling == Coupling::none) {
    std::vector<std::int64_t> most = {agreed_};
    parallel_->communicator().allreduce(view(most), ReduceOp::max, {.name = "agreements"});
    if (under_way_) end_agreement();
    while (agreed_ < most[0]) agree();
  }
  if (under_way_) end_agreement();
  if (coupling != Coupling::all || own_.steps > 0) agree();
  if (coupling == Coupling::none) go_back_to_the_last();
}

// A run that is interrupted where nobody waits for anybody goes on from where the last of them was: no example is
// left out, some are seen twice.
void Trainer::go_back_to_the_last() {
  std::vector<std::int64_t> least = {at_.step, static_cast<std::int64_t>(at_.consumed)};
  parallel_->communicator().allreduce(view(least), ReduceOp::min, {.name = "position"});
  at_.step = least[0];
  at_.consumed = static_cast<std::size_t>(least[1]);
}

}  // namespace paceline
