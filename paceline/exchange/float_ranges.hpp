// Arithmetic on ranges of parameters that a Mixer does itself: f32 and f64, each range in its own type.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/core/tensor_view.hpp"

namespace paceline {

// Throws Error{invalid} for other types; `what` needs them.
inline void require_floats(const std::vector<TensorView>& ranges, std::string_view what) {
  for (const TensorView& range : ranges) {
    if (range.dtype == DType::f32 || range.dtype == DType::f64) continue;
    throw Error(Code::invalid, fmt::format("{} computes with f32 and f64 only, and there are parameters of {}; convert "
                                           "the model, or use when=local",
                                           what, name(range.dtype)));
  }
}

// work(elements, where the range begins in bytes if all lie one after the other), for each range.
template <class Work>
void each_range(const std::vector<TensorView>& ranges, const Work& work) {
  std::size_t at = 0;
  for (const TensorView& range : ranges) {
    const auto count = static_cast<std::size_t>(range.count);
    if (range.dtype == DType::f32) {
      work(std::span(static_cast<float*>(range.data), count), at);
    } else {
      work(std::span(static_cast<double*>(range.data), count), at);
    }
    at += range.bytes();
  }
}

}  // namespace paceline
