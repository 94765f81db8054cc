// The second half of a step: from averaged gradients to new parameters.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "paceline/core/finite.hpp"
#include "paceline/torch/data_parallel_state.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {

void DataParallel::State::update() {
  bring_state_everywhere();
  const TimePoint start = endpoint_.clock().now();
  const Duration waited = communicator_.waited();
  if (fused_ != nullptr) {
    update_all();
  } else {
    run_stock_optimizer();
  }
  record_update(start, waited);
}

void DataParallel::State::update_all() {
  fused_->begin_step(used_somewhere_);
  for (std::size_t i = 0; i < arena_->size(); ++i) {
    if (!used_somewhere_[i]) continue;
    fused_->measure(i);
    update_elements(i, 0, arena_->parameter_view(i).count, false);
  }
}

void DataParallel::State::update_own_share() {
  const TimePoint start = endpoint_.clock().now();
  const Duration waited = communicator_.waited();
  if (delay_ > 0) exchange_->begin_publishing();  // others may still be in this step's backward
  fused_->begin_step(used_somewhere_);
  state_is_shared_ = !fused_->stateless();
  for (const BucketState& bucket : buckets_) {
    for (const Piece& piece : pieces_of(bucket, exchange_->own_slice(bucket.bucket))) {
      if (used_somewhere_[piece.index]) update_elements(piece.index, piece.first, piece.last, true);
    }
  }
  exchange_->end_publishing();
  record_update(start, waited);
}

// An update that is written to all would hide a replica that has drifted, or spread it. The majority is right; of two
// ranks it is rank 0.
void DataParallel::State::check_drift(std::size_t index, std::int64_t first, std::int64_t last) {
  if (options_.check_every == 0) return;
  const TensorView parameter = arena_->parameter_view(index);
  const auto size = static_cast<std::int64_t>(size_of(parameter.dtype));
  const std::vector<int> drifted =
      exchange_->drifted(parameter.begin() + first * size, static_cast<std::size_t>((last - first) * size));
  if (drifted.empty()) return;
  const auto others = static_cast<std::size_t>(communicator_.size() - 1);
  const bool own = 2 * drifted.size() > others && (others > 1 || communicator_.rank() != 0);
  give_up(fmt::format("step {}: its parameter {} has drifted", steps + 1, arena_->name(index)),
          own ? communicator_.rank() : drifted.front());
}

// In blocks that stay in the nearest cache while they are looked at, updated and written to the others.
void DataParallel::State::update_elements(std::size_t index, std::int64_t first, std::int64_t last, bool publish) {
  constexpr std::int64_t kBlock = 4096;
  const TensorView parameter = arena_->parameter_view(index);
  const TensorView gradient = arena_->gradient_view(index);
  const auto size = static_cast<std::int64_t>(size_of(parameter.dtype));
  const bool check = options_.check_finite && (communicator_.size() == 1 || alone());
  const auto publish_range = [&](std::int64_t from, std::int64_t to) {
    exchange_->publish(parameter.begin() + from * size, static_cast<std::size_t>((to - from) * size));
  };
  const bool alone = at::get_num_threads() == 1;
  if (publish && !alone) check_drift(index, first, last);
  std::atomic<bool> bad = false;
  at::parallel_for(first, last, 16 * kBlock, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t at = from; at < to && !bad; at += kBlock) {
      const std::int64_t count = std::min(kBlock, to - at);
      if (check && !all_finite({gradient.begin() + at * size, count, gradient.dtype})) {
        bad = true;
        return;
      }
      if (publish && alone) check_drift(index, at, at + count);
      fused_->update(index, at, count);
      if (publish && alone) publish_range(at, at + count);
    }
  });
  if (bad) refuse_values(arena_->name(index), communicator_.rank(), due_->step);
  if (publish && !alone) publish_range(first, last);
}

std::vector<DataParallel::State::Piece> DataParallel::State::pieces_of(const BucketState& bucket,
                                                                       const Slice& slice) const {
  std::vector<Piece> pieces;
  for (const std::size_t index : bucket.members) {
    const TensorView gradient = arena_->gradient_view(index);
    const auto begin = static_cast<std::size_t>(gradient.begin() - bucket.bucket.gradient.begin());
    const std::size_t first = std::max(begin, slice.first);
    const std::size_t last = std::min(begin + gradient.bytes(), slice.last);
    if (first >= last) continue;
    const std::size_t size = size_of(gradient.dtype);
    pieces.push_back(
        {index, static_cast<std::int64_t>((first - begin) / size), static_cast<std::int64_t>((last - begin) / size)});
  }
  return pieces;
}

// Waiting for the others' parts is not updating.
void DataParallel::State::record_update(TimePoint start, Duration waited_before) {
  const Duration waited = communicator_.waited() - waited_before;
  const Duration length = endpoint_.clock().now() - start - waited;
  update_time_ += length;
  if (options_.trace == nullptr) return;
  options_.trace->add({.start = start, .length = length, .step = steps, .activity = Activity::update});
}

ParallelTimes DataParallel::State::times() const {
  ParallelTimes times{
      .communicate = flag_time_, .wait = communicator_.waited() - waited_at_start_, .update = update_time_};
  if (exchange_) times.communicate += exchange_->communicated();
  if (mixer_) {
    times.communicate += mixer_->communicated();
    times.wait += mixer_->waited();
  }
  return times;
}

void DataParallel::State::sync_optimizer() {
  bring_state_everywhere();
  if (mixer_) mixer_->spread([&](Communicator& among) { broadcast_optimizer(among, optimizer_); });
}

// Each rank's part of the state from the rank that keeps it.
void DataParallel::State::bring_state_everywhere() {
  if (!state_is_shared_) return;
  state_is_shared_ = false;
  for (const BucketState& bucket : buckets_) {
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      for (const Piece& piece : pieces_of(bucket, exchange_->slice_of(bucket.bucket, rank))) {
        for (const torch::Tensor& state : fused_->state_of(piece.index)) {
          TensorView part = view_of(state, "the optimizer's state");
          part.data = part.begin() + piece.first * static_cast<std::int64_t>(size_of(part.dtype));
          part.count = piece.last - piece.first;
          communicator_.broadcast(part, rank, {.name = "optimizer state"});
        }
      }
    }
  }
}

// torch::optim leaves parameters alone that have no gradient.
void DataParallel::State::run_stock_optimizer() {
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    if (!used_somewhere_[i]) arena_->hide_gradient(i);
  }
  optimizer_.step();
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    if (!used_somewhere_[i]) arena_->show_gradient(i);
  }
}

}  // namespace paceline
