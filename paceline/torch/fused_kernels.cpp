#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/torch/fused_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "paceline/torch/fused_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each rule below turns one vector of every array; `a` are parameter, gradient and state.
template <class T>
struct Sgd {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const SgdStep& step;
  const V decay = hn::Set(D(), static_cast<T>(step.weight_decay));
  const V momentum = hn::Set(D(), static_cast<T>(step.momentum));
  const V intake = hn::Set(D(), static_cast<T>(step.intake));
  const V minus_lr = hn::Set(D(), static_cast<T>(-step.lr));

  HWY_INLINE void vector(T* const* a, std::size_t at) const {
    const D d;
    const V parameter = hn::LoadU(d, a[0] + at);
    V direction = hn::LoadU(d, a[1] + at);
    if (step.weight_decay != 0) direction = hn::MulAdd(parameter, decay, direction);
    if (step.momentum != 0) {
      T* m = a[2] + at;
      const V buffer = step.first ? direction : hn::MulAdd(direction, intake, hn::Mul(hn::LoadU(d, m), momentum));
      hn::StoreU(buffer, d, m);
      direction = step.nesterov ? hn::MulAdd(buffer, momentum, direction) : buffer;
    }
    hn::StoreU(hn::MulAdd(direction, minus_lr, parameter), d, a[0] + at);
  }
};

// The running means that Adam and Lamb share.
template <class T>
struct Moments {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const V beta1, fresh1, beta2, fresh2;

  template <class Step>
  explicit Moments(const Step& step)
      : beta1(hn::Set(D(), static_cast<T>(step.beta1))),
        fresh1(hn::Set(D(), static_cast<T>(1 - step.beta1))),
        beta2(hn::Set(D(), static_cast<T>(step.beta2))),
        fresh2(hn::Set(D(), static_cast<T>(1 - step.beta2))) {}

  HWY_INLINE V mean(V gradient, T* m) const {
    const D d;
    const V mean = hn::MulAdd(gradient, fresh1, hn::Mul(hn::LoadU(d, m), beta1));
    hn::StoreU(mean, d, m);
    return mean;
  }
  HWY_INLINE V square(V gradient, T* s) const {
    const D d;
    const V square = hn::MulAdd(hn::Mul(fresh2, gradient), gradient, hn::Mul(hn::LoadU(d, s), beta2));
    hn::StoreU(square, d, s);
    return square;
  }
};

template <class T>
struct Adam {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const AdamStep& step;
  const Moments<T> moments{step};
  const V epsilon = hn::Set(D(), static_cast<T>(step.epsilon));
  const V decay = hn::Set(D(), static_cast<T>(step.weight_decay));
  const V shrink = hn::Set(D(), static_cast<T>(step.shrink));
  const V minus_size = hn::Set(D(), static_cast<T>(-step.step_size));
  const V root = hn::Set(D(), static_cast<T>(step.root_correction));

  HWY_INLINE void vector(T* const* a, std::size_t at) const {
    const D d;
    V parameter = hn::LoadU(d, a[0] + at);
    V gradient = hn::LoadU(d, a[1] + at);
    if (step.weight_decay != 0) gradient = hn::MulAdd(parameter, decay, gradient);
    if (step.shrink != 1) parameter = hn::Mul(parameter, shrink);
    const V mean = moments.mean(gradient, a[2] + at);
    const V square = moments.square(gradient, a[3] + at);
    const V denominator = hn::Add(hn::Div(hn::Sqrt(square), root), epsilon);
    hn::StoreU(hn::Add(parameter, hn::Div(hn::Mul(minus_size, mean), denominator)), d, a[0] + at);
  }
};

template <class T>
struct Adagrad {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const AdagradStep& step;
  const V decay = hn::Set(D(), static_cast<T>(step.weight_decay));
  const V epsilon = hn::Set(D(), static_cast<T>(step.epsilon));
  const V minus_lr = hn::Set(D(), static_cast<T>(-step.lr));

  HWY_INLINE void vector(T* const* a, std::size_t at) const {
    const D d;
    const V parameter = hn::LoadU(d, a[0] + at);
    V gradient = hn::LoadU(d, a[1] + at);
    if (step.weight_decay != 0) gradient = hn::MulAdd(parameter, decay, gradient);
    const V sum = hn::MulAdd(gradient, gradient, hn::LoadU(d, a[2] + at));
    hn::StoreU(sum, d, a[2] + at);
    const V denominator = hn::Add(hn::Sqrt(sum), epsilon);
    hn::StoreU(hn::Add(parameter, hn::Div(hn::Mul(minus_lr, gradient), denominator)), d, a[0] + at);
  }
};

template <class T>
struct Rmsprop {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const RmspropStep& step;
  const V alpha = hn::Set(D(), static_cast<T>(step.alpha));
  const V fresh = hn::Set(D(), static_cast<T>(1 - step.alpha));
  const V decay = hn::Set(D(), static_cast<T>(step.weight_decay));
  const V momentum = hn::Set(D(), static_cast<T>(step.momentum));
  const V epsilon = hn::Set(D(), static_cast<T>(step.epsilon));
  const V minus_lr = hn::Set(D(), static_cast<T>(-step.lr));

  // The mean of squares, less the mean's square where there is one: a variance, which rounding must not make negative.
  HWY_INLINE V spread(V gradient, T* const* a, std::size_t at) const {
    const D d;
    const V square = hn::MulAdd(hn::Mul(fresh, gradient), gradient, hn::Mul(hn::LoadU(d, a[2] + at), alpha));
    hn::StoreU(square, d, a[2] + at);
    if (a[4] == nullptr) return square;
    const V mean = hn::MulAdd(gradient, fresh, hn::Mul(hn::LoadU(d, a[4] + at), alpha));
    hn::StoreU(mean, d, a[4] + at);
    return hn::Max(hn::NegMulAdd(mean, mean, square), hn::Zero(d));
  }

  HWY_INLINE void vector(T* const* a, std::size_t at) const {
    const D d;
    const V parameter = hn::LoadU(d, a[0] + at);
    V gradient = hn::LoadU(d, a[1] + at);
    if (step.weight_decay != 0) gradient = hn::MulAdd(parameter, decay, gradient);
    const V denominator = hn::Add(hn::Sqrt(spread(gradient, a, at)), epsilon);
    if (a[3] == nullptr) {
      hn::StoreU(hn::Add(parameter, hn::Div(hn::Mul(minus_lr, gradient), denominator)), d, a[0] + at);
      return;
    }
    const V buffer = hn::MulAdd(hn::LoadU(d, a[3] + at), momentum, hn::Div(gradient, denominator));
    hn::StoreU(buffer, d, a[3] + at);
    hn::StoreU(hn::MulAdd(buffer, minus_lr, parameter), d, a[0] + at);
  }
};

template <class T>
struct Lamb {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const LambStep& step;
  const V correction = hn::Set(D(), static_cast<T>(step.mean_correction));
  const V root = hn::Set(D(), static_cast<T>(step.root_correction));
  const V epsilon = hn::Set(D(), static_cast<T>(step.epsilon));
  const V decay = hn::Set(D(), static_cast<T>(step.weight_decay));
  const V minus_size = hn::Set(D(), static_cast<T>(-step.step_size));

  HWY_INLINE V direction(V parameter, V mean, V square) const {
    const V denominator = hn::Add(hn::Div(hn::Sqrt(square), root), epsilon);
    return hn::MulAdd(parameter, decay, hn::Div(hn::Mul(mean, correction), denominator));
  }

  HWY_INLINE void vector(T* const* a, std::size_t at) const {
    const D d;
    const V parameter = hn::LoadU(d, a[0] + at);
    const V along = direction(parameter, hn::LoadU(d, a[2] + at), hn::LoadU(d, a[3] + at));
    hn::StoreU(hn::MulAdd(along, minus_size, parameter), d, a[0] + at);
  }
};

template <class T>
struct LambDirection {
  using D = hn::ScalableTag<T>;
  const LambStep& step;
  const Moments<T> moments{step};
  const Lamb<T> lamb{step};

  HWY_INLINE void vector(T* const* a, std::size_t at) const {
    const D d;
    const auto gradient = hn::LoadU(d, a[1] + at);
    const auto mean = moments.mean(gradient, a[2] + at);
    const auto square = moments.square(gradient, a[3] + at);
    hn::StoreU(lamb.direction(hn::LoadU(d, a[0] + at), mean, square), d, a[4] + at);
  }
};

// Whole vectors in place, the rest through vectors on the stack.
template <class Rule, class T, class Step>
void for_all(const Step& step, const StepArrays<T>& given, std::size_t count) {
  constexpr std::size_t kArrays = 5;
  constexpr std::size_t kGradient = 1;
  T* const arrays[kArrays] = {given.parameter, const_cast<T*>(given.gradient), given.state[0], given.state[1],
                              given.state[2]};
  const Rule rule{step};
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const std::size_t whole = count / lanes * lanes;
  for (std::size_t at = 0; at < whole; at += lanes) rule.vector(arrays, at);
  if (whole == count) return;
  HWY_ALIGN T rest[kArrays][HWY_MAX_BYTES / sizeof(T)] = {};
  T* copies[kArrays];
  for (std::size_t a = 0; a < kArrays; ++a) {
    copies[a] = arrays[a] == nullptr ? nullptr : rest[a];
    if (arrays[a] != nullptr) std::memcpy(rest[a], arrays[a] + whole, (count - whole) * sizeof(T));
  }
  rule.vector(copies, 0);
  for (std::size_t a = 0; a < kArrays; ++a) {
    if (arrays[a] != nullptr && a != kGradient) std::memcpy(arrays[a] + whole, rest[a], (count - whole) * sizeof(T));
  }
}

constexpr std::size_t kSums = 16;

// Adds kSums values at a time, whatever the width of a vector.
template <class T>
double square_sum_any(const T* values, std::size_t count) {
  const hn::CappedTag<double, kSums> d;
  [[maybe_unused]] const hn::Rebind<T, decltype(d)> narrow;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  hn::Vec<decltype(d)> sums[kSums / kLanes];
  for (auto& sum : sums) sum = hn::Zero(d);
  const auto add = [&](const T* from) HWY_ATTR {
    for (std::size_t i = 0; i < kSums / kLanes; ++i) {
      if constexpr (std::is_same_v<T, double>) {
        const auto value = hn::LoadU(d, from + i * kLanes);
        sums[i] = hn::MulAdd(value, value, sums[i]);
      } else {
        const auto value = hn::PromoteTo(d, hn::LoadU(narrow, from + i * kLanes));
        sums[i] = hn::MulAdd(value, value, sums[i]);
      }
    }
  };
  const std::size_t whole = count / kSums * kSums;
  for (std::size_t at = 0; at < whole; at += kSums) add(values + at);
  T rest[kSums] = {};
  if (whole < count) std::memcpy(rest, values + whole, (count - whole) * sizeof(T));
  add(rest);
  double lanes[kSums];
  for (std::size_t i = 0; i < kSums / kLanes; ++i) hn::StoreU(sums[i], d, lanes + i * kLanes);
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

void sgd_f32(const SgdStep& step, const StepArrays<float>& arrays, std::size_t count) {
  for_all<Sgd<float>>(step, arrays, count);
}
void sgd_f64(const SgdStep& step, const StepArrays<double>& arrays, std::size_t count) {
  for_all<Sgd<double>>(step, arrays, count);
}
void adam_f32(const AdamStep& step, const StepArrays<float>& arrays, std::size_t count) {
  for_all<Adam<float>>(step, arrays, count);
}
void adam_f64(const AdamStep& step, const StepArrays<double>& arrays, std::size_t count) {
  for_all<Adam<double>>(step, arrays, count);
}
void adagrad_f32(const AdagradStep& step, const StepArrays<float>& arrays, std::size_t count) {
  for_all<Adagrad<float>>(step, arrays, count);
}
void adagrad_f64(const AdagradStep& step, const StepArrays<double>& arrays, std::size_t count) {
  for_all<Adagrad<double>>(step, arrays, count);
}
void rmsprop_f32(const RmspropStep& step, const StepArrays<float>& arrays, std::size_t count) {
  for_all<Rmsprop<float>>(step, arrays, count);
}
void rmsprop_f64(const RmspropStep& step, const StepArrays<double>& arrays, std::size_t count) {
  for_all<Rmsprop<double>>(step, arrays, count);
}
void lamb_f32(const LambStep& step, const StepArrays<float>& arrays, std::size_t count) {
  for_all<Lamb<float>>(step, arrays, count);
}
void lamb_f64(const LambStep& step, const StepArrays<double>& arrays, std::size_t count) {
  for_all<Lamb<double>>(step, arrays, count);
}
void lamb_direction_f32(const LambStep& step, const StepArrays<float>& arrays, std::size_t count) {
  for_all<LambDirection<float>>(step, arrays, count);
}
void lamb_direction_f64(const LambStep& step, const StepArrays<double>& arrays, std::size_t count) {
  for_all<LambDirection<double>>(step, arrays, count);
}
double square_sum_f32(const float* values, std::size_t count) { return square_sum_any(values, count); }
double square_sum_f64(const double* values, std::size_t count) { return square_sum_any(values, count); }

}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(sgd_f32);
HWY_EXPORT(sgd_f64);
HWY_EXPORT(adam_f32);
HWY_EXPORT(adam_f64);
HWY_EXPORT(adagrad_f32);
HWY_EXPORT(adagrad_f64);
HWY_EXPORT(rmsprop_f32);
HWY_EXPORT(rmsprop_f64);
HWY_EXPORT(lamb_f32);
HWY_EXPORT(lamb_f64);
HWY_EXPORT(lamb_direction_f32);
HWY_EXPORT(lamb_direction_f64);
HWY_EXPORT(square_sum_f32);
HWY_EXPORT(square_sum_f64);

void fused_step(const SgdStep& step, const StepArrays<float>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(sgd_f32)(step, arrays, count);
}
void fused_step(const SgdStep& step, const StepArrays<double>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(sgd_f64)(step, arrays, count);
}
void fused_step(const AdamStep& step, const StepArrays<float>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(adam_f32)(step, arrays, count);
}
void fused_step(const AdamStep& step, const StepArrays<double>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(adam_f64)(step, arrays, count);
}
void fused_step(const AdagradStep& step, const StepArrays<float>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(adagrad_f32)(step, arrays, count);
}
void fused_step(const AdagradStep& step, const StepArrays<double>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(adagrad_f64)(step, arrays, count);
}
void fused_step(const RmspropStep& step, const StepArrays<float>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(rmsprop_f32)(step, arrays, count);
}
void fused_step(const RmspropStep& step, const StepArrays<double>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(rmsprop_f64)(step, arrays, count);
}
void fused_step(const LambStep& step, const StepArrays<float>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(lamb_f32)(step, arrays, count);
}
void fused_step(const LambStep& step, const StepArrays<double>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(lamb_f64)(step, arrays, count);
}
void lamb_direction(const LambStep& step, const StepArrays<float>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(lamb_direction_f32)(step, arrays, count);
}
void lamb_direction(const LambStep& step, const StepArrays<double>& arrays, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(lamb_direction_f64)(step, arrays, count);
}
double square_sum(const float* values, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(square_sum_f32)(values, count);
}
double square_sum(const double* values, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(square_sum_f64)(values, count);
}

}  // namespace paceline
#endif
