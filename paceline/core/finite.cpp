#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/finite.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <cmath>

#include "paceline/core/finite.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A number times zero is zero; a NaN or an infinity times zero is NaN, and a sum with a NaN in it stays one.
template <class T>
bool all_finite_floats(const T* values, std::size_t count) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  auto a = zero, b = zero, c = zero, e = zero;
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::MulAdd(hn::LoadU(d, values + i), zero, a);
    b = hn::MulAdd(hn::LoadU(d, values + i + lanes), zero, b);
    c = hn::MulAdd(hn::LoadU(d, values + i + 2 * lanes), zero, c);
    e = hn::MulAdd(hn::LoadU(d, values + i + 3 * lanes), zero, e);
  }
  const auto sum = hn::Add(hn::Add(a, b), hn::Add(c, e));
  bool finite = hn::AllTrue(d, hn::Eq(sum, zero));
  for (; i < count; ++i) finite &= std::isfinite(values[i]) != 0;
  return finite;
}

// All bits of the exponent set: with the sign off, not less than the bits of infinity.
bool all_finite_halves(const std::uint16_t* values, std::size_t count, std::uint16_t infinity) {
  const hn::ScalableTag<std::uint16_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7fff);
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::And(hn::LoadU(d, values + i), magnitude));
  bool finite = hn::GetLane(hn::MaxOfLanes(d, largest)) < infinity;
  for (; i < count; ++i) finite &= (values[i] & 0x7fff) < infinity;
  return finite;
}

bool all_finite_here(const TensorView& values) {
  const auto count = static_cast<std::size_t>(values.count);
  switch (values.dtype) {
    case DType::f32: return all_finite_floats(static_cast<const float*>(values.data), count);
    case DType::f64: return all_finite_floats(static_cast<const double*>(values.data), count);
    case DType::f16: return all_finite_halves(static_cast<const std::uint16_t*>(values.data), count, 0x7c00);
    case DType::bf16: return all_finite_halves(static_cast<const std::uint16_t*>(values.data), count, 0x7f80);
    default: return true;
  }
}

}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(all_finite_here);
bool all_finite(const TensorView& values) { return HWY_DYNAMIC_DISPATCH(all_finite_here)(values); }

}  // namespace paceline
#endif
