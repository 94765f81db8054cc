#include <algorithm>
#include <utility>

#include "paceline/server/sparse_rows.hpp"

namespace paceline {

SparseSnapshot SparseRows::snapshot() { return SparseSnapshot(*this); }

SparseSnapshot::SparseSnapshot(SparseRows& rows)
    : rows_(&rows), size_(rows.size()), blocks_(rows.index_.hold_all()), stored_(rows.store_.hold_all()) {
  ++rows.snapshots_;
}

SparseSnapshot::SparseSnapshot(SparseSnapshot&& other) noexcept
    : rows_(std::exchange(other.rows_, nullptr)),
      size_(other.size_),
      blocks_(std::move(other.blocks_)),
      stored_(std::move(other.stored_)),
      block_(other.block_),
      slot_(other.slot_) {}

SparseSnapshot::~SparseSnapshot() {
  if (rows_ == nullptr) return;
  while (block_ < blocks_.size()) pass_block();
  for (RowBlock* block : stored_) rows_->store_.release(block);
  --rows_->snapshots_;
}

// Adds need not copy it any more.
void SparseSnapshot::pass_block() {
  rows_->index_.release(blocks_[block_++]);
  slot_ = 0;
}

RowBatch SparseSnapshot::next(std::size_t most) {
  RowBatch batch;
  while (block_ < blocks_.size() && batch.keys.size() < most) {
    slot_ = rows_->index_.visit(blocks_[block_], slot_, [&](RowSlot& slot) {
      if (batch.keys.size() == most) return false;
      append(slot, batch);
      return true;
    });
    if (batch.keys.size() < most) pass_block();
  }
  return batch;
}

void SparseSnapshot::append(RowSlot& slot, RowBatch& batch) const {
  const RowFormat& format = rows_->format_;
  std::byte* row = format.in_slot() ? slot.row() : rows_->store_.row_in(stored_, slot.word);
  batch.keys.push_back(slot.key);
  batch.values.resize(batch.values.size() + format.width());
  format.load(row, batch.values.data() + batch.values.size() - format.width());
  batch.state.insert(batch.state.end(), format.state(row), format.state(row) + format.state_count());
  if (format.counts_steps()) batch.steps.push_back(format.steps(row));
}

}  // namespace paceline
