// Compiled once per instruction set by Highway's foreach_target.h, which includes this file again and again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/server/half_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <cstring>

#include "paceline/server/half_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;

struct HalfRow {
  using Element = hwy::float16_t;
  static HWY_INLINE hn::Vec<FloatTag> load(const Element* from) {
    return hn::PromoteTo(FloatTag(), hn::LoadU(hn::Rebind<Element, FloatTag>(), from));
  }
  static HWY_INLINE void store(hn::Vec<FloatTag> v, Element* to) {
    const hn::Rebind<Element, FloatTag> half;
    hn::StoreU(hn::DemoteTo(half, v), half, to);
  }
};

// By integer arithmetic, because Highway 1.0's own demotion truncates.
struct BrainRow {
  using Element = std::uint16_t;
  static HWY_INLINE hn::Vec<FloatTag> load(const Element* from) {
    const FloatTag d;
    const hn::RebindToUnsigned<FloatTag> u32;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(hn::Rebind<Element, FloatTag>(), from))));
  }
  static HWY_INLINE void store(hn::Vec<FloatTag> v, Element* to) {
    const hn::Rebind<Element, FloatTag> u16;
    const hn::RebindToUnsigned<FloatTag> u32;
    const hn::RebindToSigned<FloatTag> i32;
    const auto bits = hn::BitCast(u32, v);
    const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(even, hn::Set(u32, 0x7fff))));
    const auto quiet_nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u32, 0x40));
    const auto result = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), quiet_nan, rounded);
    hn::StoreU(hn::DemoteTo(u16, hn::BitCast(i32, result)), u16, to);
  }
};

// What does not fill a vector goes through a small buffer.
template <class Row>
void widen_as(const std::byte* bytes, float* to, std::size_t count) {
  using Element = typename Row::Element;
  const FloatTag d;
  const auto* from = reinterpret_cast<const Element*>(bytes);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) hn::StoreU(Row::load(from + at), d, to + at);
  if (at == count) return;
  HWY_ALIGN Element rest[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(rest, from + at, (count - at) * sizeof(Element));
  hn::StoreU(Row::load(rest), d, wide);
  std::memcpy(to + at, wide, (count - at) * sizeof(float));
}

template <class Row>
void narrow_as(const float* from, std::byte* bytes, std::size_t count) {
  using Element = typename Row::Element;
  const FloatTag d;
  auto* to = reinterpret_cast<Element*>(bytes);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes) Row::store(hn::LoadU(d, from + at), to + at);
  if (at == count) return;
  HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN Element rest[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(wide, from + at, (count - at) * sizeof(float));
  Row::store(hn::LoadU(d, wide), rest);
  std::memcpy(to + at, rest, (count - at) * sizeof(Element));
}

void widen_any(DType dtype, const std::byte* from, float* to, std::size_t count) {
  dtype == DType::f16 ? widen_as<HalfRow>(from, to, count) : widen_as<BrainRow>(from, to, count);
}

void narrow_any(DType dtype, const float* from, std::byte* to, std::size_t count) {
  dtype == DType::f16 ? narrow_as<HalfRow>(from, to, count) : narrow_as<BrainRow>(from, to, count);
}

}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(widen_any);
HWY_EXPORT(narrow_any);

void widen(DType dtype, const std::byte* from, float* to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_any)(dtype, from, to, count);
}

void narrow(DType dtype, const float* from, std::byte* to, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_any)(dtype, from, to, count);
}

}  // namespace paceline
#endif
