// TensorView: where some elements lie, of which type and how many. It owns nothing; whoever passes one keeps the
// memory alive until the operation that got it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "paceline/core/dtype.hpp"

namespace paceline {

enum class Device : std::uint8_t { host, cuda };

struct TensorView {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::f32;
  Device device = Device::host;

  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
  std::byte* begin() const { return static_cast<std::byte*>(data); }
};

// The view of a contiguous range of elements: view(std::vector<float>&), view(std::span<std::int64_t>).
template <class Range>
TensorView view(Range&& range) {
  std::span elements(range);
  using T = typename decltype(elements)::element_type;
  static_assert(!std::is_const_v<T>, "a view is written to; copy constant data first");
  return {elements.data(), static_cast<std::int64_t>(elements.size()), dtype_of<T>::value, Device::host};
}

}  // namespace paceline
