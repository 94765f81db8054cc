// RowFormat: how the bytes of a sparse row are laid out: values, then the rule's state, then, if the rule counts steps,
// how often the row was updated. Values are f32, f16 or bf16; state is always f32. A value, thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "paceline/core/dtype.hpp"
#include "paceline/server/row_index.hpp"
#include "paceline/server/update_rule.hpp"

namespace paceline {

class RowFormat {
 public:
  // Throws Error{invalid} unless width is at least 1 and the dtype f32, f16 or bf16.
  RowFormat(std::size_t width, DType dtype, RuleKind kind);

  std::size_t width() const { return width_; }
  DType dtype() const { return dtype_; }
  // All state of a row.
  std::size_t state_count() const { return state_count_; }
  bool counts_steps() const { return counts_steps_; }
  std::size_t row_bytes() const { return row_bytes_; }

  // Whether a row lies in its slot, beside its key.
  bool in_slot() const { return kBeforeRow + row_bytes_ <= kLineBytes; }
  std::size_t slot_bytes() const {
    return in_slot() ? std::max(sizeof(RowSlot), std::bit_ceil(kBeforeRow + row_bytes_)) : sizeof(RowSlot);
  }

  // Only if dtype is f32.
  float* values(std::byte* row) const { return reinterpret_cast<float*>(row); }
  float* state(std::byte* row) const { return reinterpret_cast<float*>(row + value_bytes_); }
  // Only if the rule counts them.
  std::uint32_t& steps(std::byte* row) const {
    return *reinterpret_cast<std::uint32_t*>(row + row_bytes_ - sizeof(std::uint32_t));
  }

  void load(const std::byte* row, float* into) const;
  void store(const float* values, std::byte* row) const;
  // Values as they would be after store and load.
  void round(std::span<float> values) const;

 private:
  static constexpr std::size_t kBeforeRow = offsetof(RowSlot, word);

  std::size_t width_;
  DType dtype_;
  std::size_t state_count_;
  bool counts_steps_;
  std::size_t value_bytes_;
  std::size_t row_bytes_;
};

}  // namespace paceline
