// Element-wise arithmetic on buffers: the kernels behind every reduction. SIMD by Highway, chosen at run time for the
// machine's vectors. Pure functions, thread-safe.
//
// Rules that all kernels share, so that results do not depend on the way an element travelled:
// - f16 and bf16 are computed in f32 and rounded to nearest even when stored, once per kernel call;
// - integers wrap; their average is the wrapped sum divided by n, truncated toward zero;
// - the average of floating types is the sum divided by n (not multiplied by 1/n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "paceline/core/dtype.hpp"

namespace paceline {

enum class ReduceOp : std::uint8_t { sum, average, min, max, product };
inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                                             ReduceOp::product};
std::string_view name(ReduceOp op);

// Which operand comes first shows in the bits of NaNs, and of zeros under min and max.
enum class Operands : bool { into_first, piece_first };

// into[i] = into[i] op piece[i]; average adds, like sum. `bytes` is a multiple of the element size. The pointers need
// no more alignment than their elements.
using CombineKernel = void (*)(std::byte* into, const std::byte* piece, std::size_t bytes);
CombineKernel combine_kernel(ReduceOp op, DType dtype, Operands operands = Operands::into_first);

struct Fold {
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  std::span<const std::byte* const> sources;
  std::span<std::byte* const> targets;
  std::size_t bytes = 0;
  int divide_by = 1;  // the average's n
};
// Every target[i] = (((source0[i] op source1[i]) op source2[i]) …) / divide_by. A target may be one of the sources.
void fold(const Fold& fold);

// into[i] /= n, as the average's last step.
void divide(DType dtype, std::byte* into, std::size_t bytes, int n);

float to_float(f16_t value);
float to_float(bf16_t value);
f16_t to_f16(float value);
bf16_t to_bf16(float value);

}  // namespace paceline
