// Blocks of memory for rows: of one size, aligned to it, on large pages where the kernel has them, and counted so that
// a table and its snapshots can hold the same block until one of them changes it. Owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kBlockBytes = 64 << 10;

// The first line of a block; the rest is its owner's.
struct alignas(kLineBytes) RowBlock {
  std::uint32_t number = 0;   // in its owner's list
  std::uint32_t holders = 1;  // the table, and each snapshot that has not passed it
  std::uint32_t used = 0;     // rows in it
  std::uint32_t depth = 0;    // of an index: how many leading bits of the hash all its keys share,
  std::uint64_t prefix = 0;   // and these bits

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this); }
};

class BlockPool {
 public:
  // `block_bytes` is a power of two and at least kBlockBytes.
  explicit BlockPool(std::size_t block_bytes = kBlockBytes);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // All zeros but for `holders`, which is 1. Throws Error{system} when the system has no more memory.
  RowBlock* take();
  // A copy with one holder; `block` has one less.
  RowBlock* copy_of(RowBlock* block);
  // One holder less; the last one gives the memory back to the pool, which keeps it.
  void release(RowBlock* block);

  std::size_t block_bytes() const { return block_bytes_; }
  // Of the blocks that somebody holds.
  std::size_t used_bytes() const { return used_ * block_bytes_; }

 private:
  struct Region {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };
  RowBlock* fresh();
  void map_region();

  const std::size_t block_bytes_;
  std::vector<Region> regions_;
  std::size_t cut_ = 0;  // bytes of the last region that are blocks already
  std::vector<RowBlock*> free_;
  std::size_t used_ = 0;
};

}  // namespace paceline
