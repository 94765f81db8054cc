// Placement: which server keeps which rows. Ranges of equal length for dense tables, in whole cache lines; buckets of
// keys, by their hash, for sparse ones. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "paceline/core/random.hpp"

namespace paceline {

struct RowRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  std::uint64_t size() const { return last - first; }
  bool operator==(const RowRange&) const = default;
};

constexpr RowRange overlap(RowRange a, RowRange b) {
  const std::uint64_t first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.last, b.last))};
}

// What server `index` of `servers` keeps of a dense table.
constexpr RowRange range_of_server(std::uint64_t rows, std::uint32_t width, int servers, int index) {
  const std::uint64_t floats_of_line = 16;
  const std::uint64_t step = width >= floats_of_line ? 1 : (floats_of_line + width - 1) / width;
  const std::uint64_t steps = (rows + step - 1) / step;
  const auto bound = [&](int i) {
    return std::min(rows, step * (steps * static_cast<std::uint64_t>(i) / static_cast<std::uint64_t>(servers)));
  };
  return {bound(index), index + 1 == servers ? rows : bound(index + 1)};
}

// The server whose range has the row.
constexpr int server_of_row(std::uint64_t rows, std::uint32_t width, int servers, std::uint64_t row) {
  int low = 0;
  int high = servers - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (row < range_of_server(rows, width, servers, middle).last) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

inline constexpr std::size_t kBuckets = 1024;

// Other bits of the hash than those by which a server finds the row.
constexpr std::size_t bucket_of_key(std::uint64_t key) { return mix(key, 0x7365727665720000) % kBuckets; }

// Where a table's buckets have not been moved: see bucket_moves.hpp.
constexpr int server_of_key(std::uint64_t key, int servers) {
  return static_cast<int>(bucket_of_key(key) % static_cast<std::size_t>(servers));
}

}  // namespace paceline
