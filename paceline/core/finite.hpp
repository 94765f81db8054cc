// Looking for NaN and infinity in buffers. SIMD by Highway, one pass. Pure, thread-safe.
#pragma once

#include "paceline/core/tensor_view.hpp"

namespace paceline {

// Integers are always finite.
bool all_finite(const TensorView& values);

}  // namespace paceline
