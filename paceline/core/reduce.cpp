#include "paceline/core/reduce.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace paceline {
namespace {

template <Operands operands, ReduceOp op, DType dtype>
void combine(std::byte* into, const std::byte* piece, std::size_t bytes) {
  constexpr bool piece_first = operands == Operands::piece_first;
  const std::byte* const sources[] = {piece_first ? piece : into, piece_first ? into : piece};
  std::byte* const targets[] = {into};
  fold({.op = op, .dtype = dtype, .sources = sources, .targets = targets, .bytes = bytes});
}

constexpr std::size_t kDTypes = std::size(kAllDTypes);

template <Operands operands, ReduceOp op, std::size_t... dtypes>
constexpr std::array<CombineKernel, kDTypes> row(std::index_sequence<dtypes...>) {
  return {&combine<operands, op, static_cast<DType>(dtypes)>...};
}

template <Operands operands, std::size_t... ops>
constexpr std::array<std::array<CombineKernel, kDTypes>, sizeof...(ops)> table(std::index_sequence<ops...>) {
  return {row<operands, static_cast<ReduceOp>(ops)>(std::make_index_sequence<kDTypes>())...};
}

}  // namespace

std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::average: return "average";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: return "product";
  }
  return "?";
}

CombineKernel combine_kernel(ReduceOp op, DType dtype, Operands operands) {
  static constexpr std::array kernels = {
      table<Operands::into_first>(std::make_index_sequence<std::size(kAllReduceOps)>()),
      table<Operands::piece_first>(std::make_index_sequence<std::size(kAllReduceOps)>())};
  const auto order = static_cast<std::size_t>(operands);
  return kernels[order][static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
}

void divide(DType dtype, std::byte* into, std::size_t bytes, int n) {
  const std::byte* const sources[] = {into};
  std::byte* const targets[] = {into};
  fold({.op = ReduceOp::average,
        .dtype = dtype,
        .sources = sources,
        .targets = targets,
        .bytes = bytes,
        .divide_by = n});
}

float to_float(bf16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

bf16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

float to_float(f16_t value) {
  const int exponent = (value.bits >> 10) & 0x1f;
  const int fraction = value.bits & 0x3ff;
  const float sign = (value.bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : std::copysign(NAN, sign);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

f16_t to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto with_sign = [sign](int bits) { return f16_t{static_cast<std::uint16_t>(sign | bits)}; };
  if (std::isnan(value)) return with_sign(0x7e00);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return with_sign(0x7c00);  // halfway beyond the largest finite value
  // nearbyint rounds to nearest even; a carry into the exponent gives the right bits by itself.
  if (magnitude < 0x1.0p-14f) return with_sign(static_cast<int>(std::nearbyint(std::ldexp(magnitude, 24))));
  const int exponent = std::ilogb(magnitude);
  const int fraction = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return with_sign(((exponent + 15) << 10) + fraction - 1024);
}

}  // namespace paceline
