#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.hpp"
#include "paceline/server/sparse_rows.hpp"

namespace paceline {

AddOutcome SparseRows::add(std::span<const std::uint64_t> keys, std::span<const float> gradients, double scale) {
  const bool one_by_one = is_linear(options_.rule) && format_.dtype() == DType::f32;
  if (!one_by_one && folder_.fold(keys, gradients, format_.width()))
    return add_list({folder_.keys()}, folder_.gradients(), scale);
  return add_list({keys}, gradients, scale);
}

AddOutcome SparseRows::add(ResolvedKeys& keys, std::span<const float> gradients, double scale) {
  const bool one_by_one = is_linear(options_.rule) && format_.dtype() == DType::f32;
  if (!one_by_one && !keys.distinct) return add(std::span<const std::uint64_t>(keys.keys), gradients, scale);
  return add_list({keys.keys, keys.positions}, gradients, scale);
}

AddOutcome SparseRows::add_list(const Keys& list, std::span<const float> gradients, double scale) {
  CHECK(gradients.size() == list.keys.size() * format_.width(), "every key has a gradient of the row's width");
  AddOutcome outcome;
  scale_ = scale;
  steps_.rescale(scale);
  for (std::size_t begin = 0; begin < list.keys.size(); begin += chunk_) {
    const std::span<RowSlot*> slots = std::span(slots_).first(std::min(chunk_, list.keys.size() - begin));
    if (locate(list, begin, slots) < slots.size()) make_missing(list, begin, slots, outcome);
    if (snapshots_ > 0) own(slots);
    touch(slots);
    update(slots, gradients.data() + begin * format_.width());
    outcome.applied += slots.size();
  }
  outcome.applied -= outcome.withheld + outcome.refused.size();
  return outcome;
}

// One by one, and then all slots of the chunk anew, because making rows moves others.
void SparseRows::make_missing(const Keys& list, std::size_t begin, std::span<RowSlot*> slots, AddOutcome& outcome) {
  std::vector<std::size_t> without;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::uint64_t key = list.keys[begin + i];
    if (slots[i] != nullptr || index_.find(key) != nullptr) continue;
    if (!admitted(key)) {
      ++outcome.withheld;
    } else if (make(key) != nullptr) {
      ++outcome.created;
      continue;
    } else {
      refuse(key, outcome);
    }
    without.push_back(i);
  }
  locate(list, begin, slots);
  for (const std::size_t i : without) slots[i] = nullptr;
}

bool SparseRows::admitted(std::uint64_t key) { return !pushes_ || pushes_->count(key) >= options_.admit_after; }

RowSlot* SparseRows::make(std::uint64_t key) {
  bool may_grow = true;
  if (options_.memory_budget != 0) {
    const std::size_t row_growth = format_.in_slot() ? 0 : store_.growth();
    const auto fits = [&](std::size_t more) { return more == 0 || memory_bytes() + more <= options_.memory_budget; };
    if (!fits(row_growth)) return nullptr;
    may_grow = fits(row_growth + index_.growth_for(key));
  }
  RowSlot* slot = index_.insert(key, may_grow);
  if (slot == nullptr) return nullptr;
  slot->stamp = stamp_;
  if (!format_.in_slot()) slot->word = store_.take();
  wide_.resize(std::max(wide_.size(), format_.width()));
  options_.initial.fill(key, std::span(wide_).first(format_.width()));
  format_.store(wide_.data(), row_of(slot));
  return slot;
}

void SparseRows::refuse(std::uint64_t key, AddOutcome& outcome) const {
  outcome.refused.push_back(key);
  if (!outcome.complaint.empty()) return;
  outcome.complaint =
      fmt::format("no room for new rows, the first with key {}: the table has {} rows in {} of {} bytes", key, size(),
                  memory_bytes(), options_.memory_budget);
}

void SparseRows::own(std::span<RowSlot*> slots) {
  for (RowSlot*& slot : slots) {
    if (slot == nullptr) continue;
    slot = index_.own(slot);
    if (!format_.in_slot()) store_.own(slot->word);
  }
}

void SparseRows::update(std::span<RowSlot* const> slots, const float* gradients) {
  const std::size_t width = format_.width();
  const bool is_f32 = format_.dtype() == DType::f32;
  if (width == 1 && format_.state_count() == 0 && is_f32 && is_linear(options_.rule))
    return update_in_slots(slots, gradients);
  if (!format_.in_slot()) prefetch_rows(slots);
  pointers_.clear();
  numbers_.clear();
  wide_.resize(std::max(wide_.size(), slots.size() * width));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == nullptr) continue;
    std::byte* row = row_of(slots[i]);
    float* values = is_f32 ? format_.values(row) : wide_.data() + i * width;
    if (!is_f32) format_.load(row, values);
    pointers_.push_back({values, format_.state(row), gradients + i * width});
    if (format_.counts_steps()) numbers_.push_back(steps_.at(++format_.steps(row)));
  }
  if (!format_.counts_steps()) numbers_.push_back(steps_.at(1));
  update_rows(options_.rule.kind, numbers_, pointers_, {.width = width, .state_spacing = width});
  if (is_f32) return;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != nullptr) format_.store(wide_.data() + i * width, row_of(slots[i]));
  }
}

void SparseRows::update_in_slots(std::span<RowSlot* const> slots, const float* gradients) const {
  const bool adds = options_.rule.kind == RuleKind::add;
  const auto factor = static_cast<float>(adds ? scale_ : -options_.rule.lr * scale_);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != nullptr) *format_.values(slots[i]->row()) += factor * gradients[i];
  }
}

AddOutcome SparseRows::put(const RowBatch& batch) {
  const std::size_t width = format_.width();
  CHECK(batch.values.size() == batch.keys.size() * width, "every row has its values");
  CHECK(batch.state.size() == batch.keys.size() * format_.state_count(), "every row has its state");
  CHECK(!format_.counts_steps() || batch.steps.size() == batch.keys.size(), "every row has its steps");
  AddOutcome outcome;
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    RowSlot* slot = index_.find(batch.keys[i]);
    outcome.created += slot == nullptr ? 1 : 0;
    if (slot == nullptr) slot = make(batch.keys[i]);
    if (slot == nullptr) {
      --outcome.created;
      refuse(batch.keys[i], outcome);
      continue;
    }
    if (snapshots_ > 0) own({&slot, 1});
    touch({&slot, 1});
    std::byte* row = row_of(slot);
    format_.store(batch.values.data() + i * width, row);
    std::copy_n(batch.state.data() + i * format_.state_count(), format_.state_count(), format_.state(row));
    if (format_.counts_steps()) format_.steps(row) = batch.steps[i];
    ++outcome.applied;
  }
  return outcome;
}

}  // namespace paceline
