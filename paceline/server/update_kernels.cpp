// Compiled once per instruction set by Highway's foreach_target.h, which includes this file again and again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/server/update_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <cmath>
#include <span>

#include "paceline/server/update_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A formula is written once, over one of these two: whole vectors, and the elements that are left, which for narrow
// rows are all.
struct VectorMath {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  static HWY_INLINE std::size_t lanes() { return hn::Lanes(D()); }
  static HWY_INLINE V set(float x) { return hn::Set(D(), x); }
  static HWY_INLINE V load(const float* from) { return hn::LoadU(D(), from); }
  static HWY_INLINE void store(V v, float* to) { hn::StoreU(v, D(), to); }
  static HWY_INLINE V add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V sub(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V mul(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE V div(V a, V b) { return hn::Div(a, b); }
  static HWY_INLINE V mul_add(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V root(V a) { return hn::Sqrt(a); }
  // What is left of a when its length is made shorter by b: sign(a) max(|a| - b, 0).
  static HWY_INLINE V shrink(V a, V b) { return hn::CopySign(hn::Max(hn::Sub(hn::Abs(a), b), hn::Zero(D())), a); }
};

struct PlainMath {
  using V = float;
  static HWY_INLINE std::size_t lanes() { return 1; }
  static HWY_INLINE V set(float x) { return x; }
  static HWY_INLINE V load(const float* from) { return *from; }
  static HWY_INLINE void store(V v, float* to) { *to = v; }
  static HWY_INLINE V add(V a, V b) { return a + b; }
  static HWY_INLINE V sub(V a, V b) { return a - b; }
  static HWY_INLINE V mul(V a, V b) { return a * b; }
  static HWY_INLINE V div(V a, V b) { return a / b; }
  static HWY_INLINE V mul_add(V a, V b, V c) { return a * b + c; }
  static HWY_INLINE V root(V a) { return std::sqrt(a); }
  static HWY_INLINE V shrink(V a, V b) { return std::copysign(std::fmax(std::fabs(a) - b, 0.0f), a); }
};

// Each formula gives the new values, and writes the state: s0, s1.
struct AddFormula {
  static constexpr std::size_t state = 0;
  template <class M, class V = typename M::V>
  static HWY_INLINE V turn(const RuleNumbers& n, V value, V gradient, float*, float*) {
    return M::mul_add(M::set(n.scale), gradient, value);
  }
};

template <class M, class V = typename M::V>
HWY_INLINE V decayed(const RuleNumbers& n, V value, V gradient) {
  return n.weight_decay == 0 ? gradient : M::mul_add(value, M::set(n.weight_decay), gradient);
}

struct SgdFormula {
  static constexpr std::size_t state = 0;
  template <class M, class V = typename M::V>
  static HWY_INLINE V turn(const RuleNumbers& n, V value, V gradient, float*, float*) {
    return M::mul_add(M::set(-n.rate), decayed<M>(n, value, gradient), value);
  }
};

// The buffer begins as zero, so that its first value is the gradient, as torch::optim has it.
struct MomentumFormula {
  static constexpr std::size_t state = 1;
  template <class M, class V = typename M::V>
  static HWY_INLINE V turn(const RuleNumbers& n, V value, V gradient, float* buffer, float*) {
    const V moved = M::mul_add(M::load(buffer), M::set(n.momentum), decayed<M>(n, value, gradient));
    M::store(moved, buffer);
    return M::mul_add(M::set(-n.rate), moved, value);
  }
};

template <class M, class V = typename M::V>
HWY_INLINE V against(const RuleNumbers& n, V value, V direction, V denominator) {
  return M::add(value, M::div(M::mul(M::set(-n.rate), direction), denominator));
}

// Adagrad (Duchi, Hazan & Singer 2011).
struct AdagradFormula {
  static constexpr std::size_t state = 1;
  template <class M, class V = typename M::V>
  static HWY_INLINE V turn(const RuleNumbers& n, V value, V given, float* squares, float*) {
    const V gradient = decayed<M>(n, value, given);
    const V sum = M::mul_add(gradient, gradient, M::load(squares));
    M::store(sum, squares);
    return against<M>(n, value, gradient, M::add(M::root(sum), M::set(n.epsilon)));
  }
};

// RMSprop (Tieleman & Hinton 2012).
struct RmspropFormula {
  static constexpr std::size_t state = 1;
  template <class M, class V = typename M::V>
  static HWY_INLINE V turn(const RuleNumbers& n, V value, V given, float* squares, float*) {
    const V gradient = decayed<M>(n, value, given);
    const V fresh = M::mul(M::mul(M::set(n.fresh_alpha), gradient), gradient);
    const V mean = M::mul_add(M::load(squares), M::set(n.alpha), fresh);
    M::store(mean, squares);
    return against<M>(n, value, gradient, M::add(M::root(mean), M::set(n.epsilon)));
  }
};

// Adam (Kingma & Ba 2015).
struct AdamFormula {
  static constexpr std::size_t state = 2;
  template <class M, class V = typename M::V>
  static HWY_INLINE V turn(const RuleNumbers& n, V value, V given, float* means, float* squares) {
    const V gradient = decayed<M>(n, value, given);
    const V mean = M::mul_add(M::load(means), M::set(n.beta1), M::mul(M::set(n.fresh_beta1), gradient));
    const V fresh = M::mul(M::mul(M::set(n.fresh_beta2), gradient), gradient);
    const V square = M::mul_add(M::load(squares), M::set(n.beta2), fresh);
    M::store(mean, means);
    M::store(square, squares);
    const V denominator = M::add(M::div(M::root(square), M::set(n.root)), M::set(n.epsilon));
    return against<M>(n, value, mean, denominator);
  }
};

// FTRL-Proximal (McMahan et al. 2013), per coordinate. The new value follows from z and n alone.
struct FtrlFormula {
  static constexpr std::size_t state = 2;
  template <class M, class V = typename M::V>
  static HWY_INLINE V turn(const RuleNumbers& n, V value, V given, float* z, float* squares) {
    const V gradient = M::mul(M::set(n.scale), given);
    const V before = M::load(squares);
    const V sum = M::mul_add(gradient, gradient, before);
    const V root = M::root(sum);
    const V sigma = M::mul(M::sub(root, M::root(before)), M::set(n.per_alpha));
    const V leaning = M::add(M::load(z), M::sub(gradient, M::mul(sigma, value)));
    M::store(sum, squares);
    M::store(leaning, z);
    const V curvature = M::mul_add(M::add(M::set(n.beta), root), M::set(n.per_alpha), M::set(n.l2));
    return M::div(M::sub(M::set(0), M::shrink(leaning, M::set(n.l1))), curvature);
  }
};

template <class Formula, class M>
HWY_INLINE std::size_t run(const RuleNumbers& n, const RowPointers& row, std::size_t at, const RowShape& shape) {
  for (; at + M::lanes() <= shape.width; at += M::lanes()) {
    float* values = row.values + at;
    float* s0 = Formula::state > 0 ? row.state + at : nullptr;
    float* s1 = Formula::state > 1 ? s0 + shape.state_spacing : nullptr;
    M::store(Formula::template turn<M>(n, M::load(values), M::load(row.gradient + at), s0, s1), values);
  }
  return at;
}

template <class Formula>
void update_all(std::span<const RuleNumbers> numbers, std::span<const RowPointers> rows, const RowShape& shape) {
  const bool each = numbers.size() > 1;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RuleNumbers& n = numbers[each ? r : 0];
    run<Formula, PlainMath>(n, rows[r], run<Formula, VectorMath>(n, rows[r], 0, shape), shape);
  }
}

void update_kind(RuleKind kind, std::span<const RuleNumbers> numbers, std::span<const RowPointers> rows,
                 const RowShape& shape) {
  switch (kind) {
    case RuleKind::add: return update_all<AddFormula>(numbers, rows, shape);
    case RuleKind::sgd: return update_all<SgdFormula>(numbers, rows, shape);
    case RuleKind::momentum: return update_all<MomentumFormula>(numbers, rows, shape);
    case RuleKind::adagrad: return update_all<AdagradFormula>(numbers, rows, shape);
    case RuleKind::rmsprop: return update_all<RmspropFormula>(numbers, rows, shape);
    case RuleKind::adam: return update_all<AdamFormula>(numbers, rows, shape);
    case RuleKind::ftrl: return update_all<FtrlFormula>(numbers, rows, shape);
  }
}

template <class M>
HWY_INLINE std::size_t compensate(const DelayedGradient& d, float lambda, std::size_t at) {
  for (; at + M::lanes() <= d.count; at += M::lanes()) {
    const auto gradient = M::load(d.gradient + at);
    const auto moved = M::sub(M::load(d.now + at), M::load(d.then + at));
    const auto curvature = M::mul(M::mul(M::set(lambda), gradient), gradient);
    M::store(M::mul_add(curvature, moved, gradient), d.gradient + at);
  }
  return at;
}

void compensate_all(const DelayedGradient& d, float lambda) {
  compensate<PlainMath>(d, lambda, compensate<VectorMath>(d, lambda, 0));
}

}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(update_kind);
HWY_EXPORT(compensate_all);

void update_rows(RuleKind kind, std::span<const RuleNumbers> numbers, std::span<const RowPointers> rows,
                 const RowShape& shape) {
  HWY_DYNAMIC_DISPATCH(update_kind)(kind, numbers, rows, shape);
}

void compensate_delay(const DelayedGradient& delayed, double lambda) {
  HWY_DYNAMIC_DISPATCH(compensate_all)(delayed, static_cast<float>(lambda));
}

}  // namespace paceline
#endif
