// f16 and bf16 to f32 and back, rounded to nearest even. SIMD by Highway, chosen at run time. Pure functions,
// thread-safe.
#pragma once

#include <cstddef>

#include "paceline/core/dtype.hpp"

namespace paceline {

// `dtype` is f16 or bf16; `from` and `to` hold `count` elements of it.
void widen(DType dtype, const std::byte* from, float* to, std::size_t count);
void narrow(DType dtype, const float* from, std::byte* to, std::size_t count);

}  // namespace paceline
