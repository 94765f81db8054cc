// RowInitializer: what a row holds before its first update. A function of seed and key alone, so that every shard,
// order and restart gives the same. A value, thread-safe.
//
// Notation: "zero"; "uniform:0.05", between -0.05 and 0.05; "normal:0.01", of this standard deviation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace paceline {

struct RowInitializer {
  enum class Kind : std::uint8_t { zero, uniform, normal };

  Kind kind = Kind::zero;
  double size = 0;
  std::uint64_t seed = 0;

  // Never with -0: see Note [Dropping zeros] in update_filter.hpp.
  void fill(std::uint64_t key, std::span<float> values) const;
  std::string text() const;  // without the seed
  bool operator==(const RowInitializer&) const = default;
};

// Makes 0 of -0.
inline void drop_signs_of_zeros(std::span<float> values) {
  for (float& value : values) value += 0.0F;
}

// Throws Error{invalid} with the notation.
RowInitializer parse_initializer(std::string_view text, std::uint64_t seed = 0);

}  // namespace paceline
