// From a step's gradients to those that are due: Note [Rounds] in data_parallel_state.hpp. With when=delayed:D rounds
// arrive D steps after they have departed (Langford, Smola & Zinkevich 2009, "Slow learners are fast"); a worker that
// has run out of batches shadows the others' rounds (as PyTorch's join: Li et al. 2020).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/data_parallel_state.hpp"
#include "paceline/torch/sparse_gradients.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {

void DataParallel::State::depart() {
  adopt_parameters();
  settle_unused();
  for (BucketState& bucket : buckets_) bucket.missing = 0;
  submit_complete();
  Round& round = rounds_.emplace_back();
  round.generation = arena_->home();
  round.step = steps;
  announce_use(round);
  for (NamedTensor& item : sparse_) round.sparse.push_back(std::exchange(item.tensor.mutable_grad(), torch::Tensor()));
}

// The oldest round, if it has travelled for long enough. Generations are used in turn: when it has not, the next one is
// not on its way.
void DataParallel::State::await_due() {
  if (rounds_.size() > delay_) return arrive();
  turn_to((arena_->home() + 1) % arena_->generations());
  arena_->zero_gradients();
}

void DataParallel::State::arrive() {
  due_ = std::move(rounds_.front());
  rounds_.pop_front();
  turn_to(due_->generation);
  learn_use(*due_);
  exchange_->settle(due_->step);
  report_bad_value();
  weigh(*due_);
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    sparse_[i].tensor.mutable_grad() = due_->sparse[i];
    if (used_somewhere_[dense_.size() + i])
      average_sparse_gradient(communicator_, sparse_[i].tensor, sparse_[i].name, divisor_of(*due_));
  }
}

void DataParallel::State::turn_to(std::size_t generation) {
  arena_->turn_to(generation);
  for (BucketState& state : buckets_)
    state.bucket.gradient = arena_->gradient_range(state.members.front(), state.members.back());
}

// On how many ranks was each parameter used; has any rank a reason to compare the replicas; how many have batches?
void DataParallel::State::announce_use(Round& round) {
  const std::size_t parameters = progress_.size();
  const std::size_t count = parameters + kMoreFlags;
  round.flags = flags_.as<float>().subspan(round.generation * count, count);
  for (std::size_t i = 0; i < parameters; ++i) round.flags[i] = progress_[i].used ? 1 : 0;
  round.flags[parameters] = doubt_ == Doubt::here ? 1 : 0;
  round.flags[parameters + 1] = out_of_batches_ ? 0 : 1;
  if (communicator_.size() == 1) return;
  const TimePoint start = endpoint_.clock().now();
  round.use = communicator_.start_allreduce(view(round.flags), ReduceOp::sum, {.name = "use of parameters"});
  flag_time_ += endpoint_.clock().now() - start;
}

void DataParallel::State::learn_use(Round& round) {
  const std::size_t parameters = progress_.size();
  if (communicator_.size() > 1) {
    const TimePoint start = endpoint_.clock().now();
    const Duration waited = communicator_.waited();
    round.use.wait();
    const Duration idle = communicator_.waited() - waited;
    flag_time_ += endpoint_.clock().now() - start - idle;
    if (options_.trace != nullptr)
      options_.trace->add({.start = start, .length = idle, .step = steps, .activity = Activity::wait});
  }
  for (std::size_t i = 0; i < parameters; ++i) used_somewhere_[i] = round.flags[i] > 0;
  doubt_ = round.flags[parameters] > 0 ? Doubt::agreed : doubt_;
}

int DataParallel::State::divisor_of(const Round& round) const {
  return options_.divide_by_active ? static_cast<int>(active_in(round)) : communicator_.size();
}

// From the average over all to that over those who had a batch. Nothing to do, and the same bits, while all have.
void DataParallel::State::weigh(const Round& round) {
  const int divisor = divisor_of(round);
  if (divisor == communicator_.size()) return;
  const double factor = static_cast<double>(communicator_.size()) / divisor;
  for (const BucketState& state : buckets_) {
    const TensorView& gradient = state.bucket.gradient;
    const Slice slice = round.whole ? Slice{0, gradient.bytes()} : exchange_->own_slice(state.bucket);
    const auto count = static_cast<std::int64_t>((slice.last - slice.first) / size_of(gradient.dtype));
    torch::from_blob(gradient.begin() + slice.first, {count}, torch_type(gradient.dtype)).mul_(factor);
  }
}

void DataParallel::State::bring_everywhere() {
  if (due_ && phase_ == Phase::gathering) exchange_->finish(due_->step);
  phase_ = Phase::finished;
}

// Before slices change hands.
void DataParallel::State::bring_all_rounds_everywhere() {
  if (rounds_.empty()) return;
  exchange_->finish();
  report_bad_value();
  for (Round& round : rounds_) round.whole = true;
}

void DataParallel::State::lend() {
  if (delay_ > 0) exchange_->lend();
}

// ---- the end of training, or of an epoch

void DataParallel::State::drain(const Between& between) {
  if (mixer_) {
    refuse_unfinished("drain()");
    mixer_->drain();
    if (check_is_due()) check_replicas();
    return;
  }
  if (rounds_.empty()) return;
  refuse_unfinished("drain()");
  while (!rounds_.empty()) {
    arrive();
    if (between) {
      bring_everywhere();
      between();
    }
    apply();
    forget_progress();
  }
  if (doubt_ == Doubt::agreed) check_replicas();
}

// A rank that still has batches learns from the flags how many others have; one that has none learns from the same
// flags when nobody has. Costs one round of zeros in which nobody has a batch, and nothing before.
void DataParallel::State::join(const Between& between) {
  refuse_unfinished("join()");
  while (!alone() && shadow_step(between)) {
  }
  mixer_ ? join_alone() : drain(between);
}

bool DataParallel::State::shadow_step(const Between& between) {
  contribute_nothing();
  out_of_batches_ = true;
  depart();
  out_of_batches_ = false;
  // At once, though the round may arrive later: who has nothing to compute can wait.
  rounds_.back().use.wait();
  if (active_in(rounds_.back()) == 0) {
    bring_all_rounds_everywhere();
    rounds_.pop_back();
    forget_progress();
    return false;
  }
  await_due();
  if (between) {
    bring_everywhere();
    between();
  }
  if (due_) apply();
  end_step();
  return true;
}

void DataParallel::State::contribute_nothing() {
  for (std::size_t i = 0; i < arena_->size(); ++i) arena_->show_gradient(i);
  arena_->zero_gradients();
  for (NamedTensor& item : sparse_) item.tensor.mutable_grad() = torch::Tensor();
}

void DataParallel::State::refuse_unfinished(const char* call) const {
  const bool begun = std::any_of(progress_.begin(), progress_.end(), [](const Progress& p) { return p.used; });
  if (!begun && phase_ == Phase::gathering) return;
  throw Error(Code::invalid, fmt::format("{} between the backward() and the step() of step {}; call it after step()",
                                         call, steps + 1));
}

}  // namespace paceline
