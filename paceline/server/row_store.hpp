// RowStore: numbered rows of one size in blocks, for rows that are too large to lie beside their keys. Numbers of
// dropped rows are used again. Owned by one thread; a pointer to a row is valid until `own` or `put_back` of a row of
// its block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paceline/server/row_blocks.hpp"

namespace paceline {

class RowStore {
 public:
  explicit RowStore(std::size_t row_bytes);

  std::byte* row(std::uint32_t number) const { return row_in(blocks_, number); }
  // The same in blocks that a snapshot holds.
  std::byte* row_in(const std::vector<RowBlock*>& blocks, std::uint32_t number) const {
    return blocks[number >> bits_]->bytes() + sizeof(RowBlock) + (number & ((1u << bits_) - 1)) * stride_;
  }

  // Bytes that one more row takes, beyond memory_bytes().
  std::size_t growth() const;
  // A row of zeros.
  std::uint32_t take();
  void put_back(std::uint32_t number) { free_.push_back(number); }

  // All blocks as they are now; each is to be released. From then on `own` before every change.
  std::vector<RowBlock*> hold_all();
  void release(RowBlock* block) { pool_.release(block); }
  // The row, in a block that no snapshot holds.
  std::byte* own(std::uint32_t number);

  std::size_t memory_bytes() const;

 private:
  const std::size_t stride_;
  BlockPool pool_;
  const std::uint32_t block_rows_;
  const int bits_;  // of a number, for the row in its block
  std::vector<RowBlock*> blocks_;
  std::uint32_t next_ = 0;  // row of the last block that was never used
  std::vector<std::uint32_t> free_;
};

}  // namespace paceline
