#include "paceline/server/row_store.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

// Large rows begin with a cache line of their own.
std::size_t stride_of(std::size_t row_bytes) {
  const std::size_t unit = row_bytes >= 4 * kLineBytes ? kLineBytes : 16;
  return (row_bytes + unit - 1) / unit * unit;
}

std::size_t block_bytes_of(std::size_t stride) { return std::max(kBlockBytes, std::bit_ceil(8 * stride)); }

}  // namespace

RowStore::RowStore(std::size_t row_bytes)
    : stride_(stride_of(row_bytes)),
      pool_(block_bytes_of(stride_)),
      block_rows_(static_cast<std::uint32_t>((pool_.block_bytes() - sizeof(RowBlock)) / stride_)),
      bits_(std::bit_width(block_rows_ - 1)),
      next_(block_rows_) {}

std::size_t RowStore::growth() const {
  if (!free_.empty() || next_ < block_rows_) return 0;
  return pool_.block_bytes();
}

std::uint32_t RowStore::take() {
  if (!free_.empty()) {
    const std::uint32_t number = free_.back();
    free_.pop_back();
    std::memset(own(number), 0, stride_);
    return number;
  }
  if (next_ == block_rows_) {
    CHECK(blocks_.size() < (std::size_t{1} << (32 - bits_)), "row numbers fit into 32 bits");
    blocks_.push_back(pool_.take());
    next_ = 0;
  }
  const auto number = static_cast<std::uint32_t>(((blocks_.size() - 1) << bits_) | next_++);
  own(number);
  return number;
}

std::vector<RowBlock*> RowStore::hold_all() {
  for (RowBlock* block : blocks_) ++block->holders;
  return blocks_;
}

std::byte* RowStore::own(std::uint32_t number) {
  RowBlock*& block = blocks_[number >> bits_];
  if (block->holders > 1) block = pool_.copy_of(block);
  return row(number);
}

std::size_t RowStore::memory_bytes() const {
  return pool_.used_bytes() + blocks_.capacity() * sizeof(RowBlock*) + free_.capacity() * sizeof(std::uint32_t);
}

}  // namespace paceline
