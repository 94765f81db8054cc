#include "paceline/server/row_blocks.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLargePage = 2 << 20;
constexpr std::size_t kMostRegionBytes = 64 << 20;

}  // namespace

BlockPool::BlockPool(std::size_t block_bytes) : block_bytes_(block_bytes) {
  CHECK(std::has_single_bit(block_bytes) && block_bytes >= kBlockBytes, "blocks are a power of two of bytes");
}

BlockPool::~BlockPool() {
  for (const Region& region : regions_) munmap(region.memory, region.bytes);
}

// Regions grow with the pool, so that a large table has few of them and a small one takes little.
void BlockPool::map_region() {
  const std::size_t alignment = std::max(kLargePage, block_bytes_);
  const std::size_t wanted = std::clamp(used_bytes() / 8, alignment, std::max(alignment, kMostRegionBytes));
  const std::size_t bytes = (wanted + alignment - 1) / alignment * alignment;
  void* mapped = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw system_error(fmt::format("cannot get {} bytes for rows", bytes), errno);
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(mapped) % alignment) % alignment;
  if (before > 0) munmap(begin, before);
  if (before < alignment) munmap(begin + before + bytes, alignment - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);  // a wish: without large pages everything works, slower
  regions_.push_back({begin + before, bytes});
  cut_ = 0;
}

RowBlock* BlockPool::fresh() {
  if (regions_.empty() || cut_ == regions_.back().bytes) map_region();
  std::byte* at = regions_.back().memory + cut_;
  cut_ += block_bytes_;
  return reinterpret_cast<RowBlock*>(at);
}

RowBlock* BlockPool::take() {
  RowBlock* block = nullptr;
  if (free_.empty()) {
    block = fresh();
  } else {
    block = free_.back();
    free_.pop_back();
    std::memset(block->bytes(), 0, block_bytes_);
  }
  ++used_;
  return new (block) RowBlock;
}

RowBlock* BlockPool::copy_of(RowBlock* block) {
  RowBlock* copy = nullptr;
  if (free_.empty()) {
    copy = fresh();
  } else {
    copy = free_.back();
    free_.pop_back();
  }
  ++used_;
  std::memcpy(copy->bytes(), block->bytes(), block_bytes_);
  copy->holders = 1;
  release(block);
  return copy;
}

void BlockPool::release(RowBlock* block) {
  if (--block->holders > 0) return;
  free_.push_back(block);
  --used_;
}

}  // namespace paceline
