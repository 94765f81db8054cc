#include "paceline/server/row_format.hpp"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/server/half_rows.hpp"

namespace paceline {
namespace {

constexpr std::size_t kMostWidth = 1 << 24;

std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

RowFormat::RowFormat(std::size_t width, DType dtype, RuleKind kind)
    : width_(width),
      dtype_(dtype),
      state_count_(state_floats(kind) * width),
      counts_steps_(paceline::counts_steps(kind)),
      value_bytes_(padded(width * size_of(dtype))),
      row_bytes_(value_bytes_ + state_count_ * sizeof(float) + (counts_steps_ ? sizeof(std::uint32_t) : 0)) {
  if (width < 1 || width > kMostWidth)
    throw Error(Code::invalid, fmt::format("a row has 1 to {} values, not {}", kMostWidth, width));
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    throw Error(Code::invalid, fmt::format("rows hold f32, f16 or bf16, not {}", name(dtype)));
}

void RowFormat::load(const std::byte* row, float* into) const {
  if (dtype_ == DType::f32) {
    std::memcpy(into, row, width_ * sizeof(float));
  } else {
    widen(dtype_, row, into, width_);
  }
}

void RowFormat::store(const float* values, std::byte* row) const {
  if (dtype_ == DType::f32) {
    std::memcpy(row, values, width_ * sizeof(float));
  } else {
    narrow(dtype_, values, row, width_);
  }
}

void RowFormat::round(std::span<float> values) const {
  if (dtype_ == DType::f32) return;
  std::vector<std::byte> narrowed(value_bytes_);
  store(values.data(), narrowed.data());
  load(narrowed.data(), values.data());
}

}  // namespace paceline
