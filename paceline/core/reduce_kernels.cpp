// The SIMD kernels, compiled once per instruction set by Highway's foreach_target.h, which includes this file again
// and again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/reduce_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/reduce.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A format says how elements of a dtype are loaded into vectors of the type in which they are computed, and stored.
template <class T>
struct Plain {
  using Element = T;
  using D = hn::ScalableTag<T>;
  static HWY_INLINE auto load(D d, const T* from) { return hn::LoadU(d, from); }
  static HWY_INLINE void store(hn::Vec<D> v, D d, T* to) { hn::StoreU(v, d, to); }
};

struct Half {
  using Element = hwy::float16_t;
  using D = hn::ScalableTag<float>;
  static HWY_INLINE auto load(D d, const Element* from) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, from));
  }
  static HWY_INLINE void store(hn::Vec<D> v, D, Element* to) {
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::DemoteTo(half, v), half, to);
  }
};

// By integer arithmetic, because Highway 1.0's own demotion truncates instead of rounding to nearest even.
struct Brain {
  using Element = std::uint16_t;
  using D = hn::ScalableTag<float>;
  static HWY_INLINE auto load(D d, const Element* from) {
    const hn::Rebind<std::uint16_t, D> u16;
    const hn::RebindToUnsigned<D> u32;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, from))));
  }
  static HWY_INLINE void store(hn::Vec<D> v, D d, Element* to) {
    const hn::Rebind<std::uint16_t, D> u16;
    const hn::RebindToUnsigned<D> u32;
    const hn::RebindToSigned<D> i32;
    const auto bits = hn::BitCast(u32, v);
    const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(even, hn::Set(u32, 0x7fff))));
    const auto quiet_nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u32, 0x40));
    const auto is_nan = hn::RebindMask(u32, hn::IsNaN(v));
    const auto result = hn::IfThenElse(is_nan, quiet_nan, rounded);
    hn::StoreU(hn::DemoteTo(u16, hn::BitCast(i32, result)), u16, to);
    (void)d;
  }
};

template <ReduceOp op, class V>
HWY_INLINE V apply(V a, V b) {
  if constexpr (op == ReduceOp::min) {
    return hn::Min(a, b);
  } else if constexpr (op == ReduceOp::max) {
    return hn::Max(a, b);
  } else if constexpr (op == ReduceOp::product) {
    return hn::Mul(a, b);
  } else {
    return hn::Add(a, b);
  }
}

// Vectors of the sources' elements folded in order; `lanes` may be fewer than a vector holds, at the end of a buffer.
template <ReduceOp op, class Format>
struct FoldLoop {
  using Element = typename Format::Element;
  using D = typename Format::D;
  using Lane = hn::TFromD<D>;

  static HWY_INLINE auto combine(const Fold& f, std::size_t at) {
    const D d;
    auto sum = Format::load(d, reinterpret_cast<const Element*>(f.sources[0]) + at);
    for (std::size_t s = 1; s < f.sources.size(); ++s) {
      sum = apply<op>(sum, Format::load(d, reinterpret_cast<const Element*>(f.sources[s]) + at));
    }
    return finish(f, sum);
  }

  template <class V>
  static HWY_INLINE V finish(const Fold& f, V sum) {
    if constexpr (op == ReduceOp::average && !std::is_integral_v<Lane>) {
      if (f.divide_by != 1) return hn::Div(sum, hn::Set(D(), static_cast<Lane>(f.divide_by)));
    }
    (void)f;
    return sum;
  }

  static HWY_INLINE void vectors(const Fold& f, std::size_t begin, std::size_t end) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t at = begin; at + lanes <= end; at += lanes) {
      const auto result = combine(f, at);
      for (std::byte* target : f.targets) Format::store(result, d, reinterpret_cast<Element*>(target) + at);
    }
  }

  // Two sources into one target: what arrives, added to what is there. Kept free of inner loops, like `pair`.
  static HWY_INLINE void into_one(const Fold& f, std::size_t begin, std::size_t end) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const auto* a = reinterpret_cast<const Element*>(f.sources[0]);
    const auto* b = reinterpret_cast<const Element*>(f.sources[1]);
    auto* x = reinterpret_cast<Element*>(f.targets[0]);
    std::size_t at = begin;
    for (; at + 2 * lanes <= end; at += 2 * lanes) {
      const auto first = finish(f, apply<op>(Format::load(d, a + at), Format::load(d, b + at)));
      const auto second = finish(f, apply<op>(Format::load(d, a + at + lanes), Format::load(d, b + at + lanes)));
      Format::store(first, d, x + at);
      Format::store(second, d, x + at + lanes);
    }
    for (; at + lanes <= end; at += lanes) {
      Format::store(finish(f, apply<op>(Format::load(d, a + at), Format::load(d, b + at))), d, x + at);
    }
  }

  // Two sources that are also the two targets: the case of two workers.
  static HWY_INLINE void pair(const Fold& f, std::size_t begin, std::size_t end) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    const auto* a = reinterpret_cast<const Element*>(f.sources[0]);
    const auto* b = reinterpret_cast<const Element*>(f.sources[1]);
    auto* x = reinterpret_cast<Element*>(f.targets[0]);
    auto* y = reinterpret_cast<Element*>(f.targets[1]);
    for (std::size_t at = begin; at + lanes <= end; at += lanes) {
      const auto result = finish(f, apply<op>(Format::load(d, a + at), Format::load(d, b + at)));
      Format::store(result, d, x + at);
      Format::store(result, d, y + at);
    }
  }

  // Fewer elements than a vector: through small buffers.
  static void rest(const Fold& f, std::size_t begin, std::size_t end) {
    const D d;
    HWY_ALIGN Element in[HWY_MAX_BYTES / sizeof(Element)] = {};
    const std::size_t bytes = (end - begin) * sizeof(Element);
    std::memcpy(in, reinterpret_cast<const Element*>(f.sources[0]) + begin, bytes);
    auto sum = Format::load(d, in);
    for (std::size_t s = 1; s < f.sources.size(); ++s) {
      std::memcpy(in, reinterpret_cast<const Element*>(f.sources[s]) + begin, bytes);
      sum = apply<op>(sum, Format::load(d, in));
    }
    Format::store(finish(f, sum), d, in);
    for (std::byte* target : f.targets) std::memcpy(reinterpret_cast<Element*>(target) + begin, in, bytes);
  }

  // Plain stores: a target is usually one of the sources, so its line has just been read, and stores that go past the
  // caches (tried up to 256 MiB) only lose.
  static void run(const Fold& f) {
    const std::size_t count = f.bytes / sizeof(Element);
    const std::size_t whole = count - count % hn::Lanes(D());
    if (f.sources.size() == 2 && f.targets.size() == 2) {
      pair(f, 0, whole);
    } else if (f.sources.size() == 2 && f.targets.size() == 1) {
      into_one(f, 0, whole);
    } else {
      vectors(f, 0, whole);
    }
    if (whole < count) rest(f, whole, count);
  }
};

// What came over a network is aligned to nothing.
template <class T>
HWY_INLINE T load_anywhere(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Integer products and quotients have no vector instruction everywhere: plain loops, left to the compiler.
template <class T>
void fold_integer_product(const Fold& f) {
  using U = std::make_unsigned_t<T>;
  for (std::size_t i = 0; i < f.bytes / sizeof(T); ++i) {
    // 64-bit, so that no product of promoted narrow integers overflows.
    std::uint64_t product = 1;
    for (const std::byte* source : f.sources) product *= load_anywhere<U>(source + i * sizeof(T));
    const auto result = static_cast<U>(product);
    for (std::byte* target : f.targets) std::memcpy(target + i * sizeof(T), &result, sizeof result);
  }
}

template <class T>
void divide_integers(std::byte* into, std::size_t bytes, int n) {
  T* values = reinterpret_cast<T*>(into);
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
    values[i] = static_cast<T>(static_cast<std::int64_t>(values[i]) / n);
  }
}

template <class Format>
void fold_format(const Fold& f) {
  switch (f.op) {
    case ReduceOp::sum: return FoldLoop<ReduceOp::sum, Format>::run(f);
    case ReduceOp::average: return FoldLoop<ReduceOp::average, Format>::run(f);
    case ReduceOp::min: return FoldLoop<ReduceOp::min, Format>::run(f);
    case ReduceOp::max: return FoldLoop<ReduceOp::max, Format>::run(f);
    case ReduceOp::product: return FoldLoop<ReduceOp::product, Format>::run(f);
  }
}

template <class T>
void fold_integers(const Fold& f) {
  switch (f.op) {
    case ReduceOp::sum: return FoldLoop<ReduceOp::sum, Plain<T>>::run(f);
    case ReduceOp::min: return FoldLoop<ReduceOp::min, Plain<T>>::run(f);
    case ReduceOp::max: return FoldLoop<ReduceOp::max, Plain<T>>::run(f);
    case ReduceOp::product: return fold_integer_product<T>(f);
    case ReduceOp::average: break;
  }
  FoldLoop<ReduceOp::sum, Plain<T>>::run(f);
  if (f.divide_by == 1) return;
  for (std::byte* target : f.targets) divide_integers<T>(target, f.bytes, f.divide_by);
}

void fold_any(const Fold& f) {
  switch (f.dtype) {
    case DType::f16: return fold_format<Half>(f);
    case DType::bf16: return fold_format<Brain>(f);
    case DType::f32: return fold_format<Plain<float>>(f);
    case DType::f64: return fold_format<Plain<double>>(f);
    case DType::i8: return fold_integers<std::int8_t>(f);
    case DType::u8: return fold_integers<std::uint8_t>(f);
    case DType::i32: return fold_integers<std::int32_t>(f);
    case DType::i64: return fold_integers<std::int64_t>(f);
  }
}

}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(fold_any);

void fold(const Fold& f) {
  if (f.bytes > 0) HWY_DYNAMIC_DISPATCH(fold_any)(f);
}

}  // namespace paceline
#endif
