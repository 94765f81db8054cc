// How quickly this process copies memory that is in no cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "paceline/core/clock.hpp"

namespace paceline {

// Two buffers, touched. Larger than the last-level cache if there is room for that: `available_bytes` is what may be
// shared by `workers`.
class MemoryCopy {
 public:
  MemoryCopy(std::uint64_t available_bytes, int workers);
  ~MemoryCopy();
  MemoryCopy(const MemoryCopy&) = delete;
  MemoryCopy& operator=(const MemoryCopy&) = delete;

  // 10^9 bytes copied per second, over at least this long.
  double measure(Duration span);

 private:
  std::size_t bytes_;
  std::byte* memory_;  // both, one after the other
};

}  // namespace paceline
