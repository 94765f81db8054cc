#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/torch/fused_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "paceline/torch/fused_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace paceline::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Sgd {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const SgdStep& step;
  const V decay = hn::Set(D(), static_cast<T>(step.weight_decay));
  const V momentum = hn::Set(D(), static_cast<T>(step.momentum));
  const V fresh = hn::Set(D(), static_cast<T>(1 - step.dampening));
  const V minus_lr = hn::Set(D(), static_cast<T>(-step.lr));

  HWY_INLINE void vector(T* p, const T* g, T* m) const {
    const D d;
    const V parameter = hn::LoadU(d, p);
    V direction = hn::LoadU(d, g);
    if (step.weight_decay != 0) direction = hn::MulAdd(parameter, decay, direction);
    if (step.momentum != 0) {
      const V buffer = step.first ? direction : hn::MulAdd(direction, fresh, hn::Mul(hn::LoadU(d, m), momentum));
      hn::StoreU(buffer, d, m);
      direction = step.nesterov ? hn::MulAdd(buffer, momentum, direction) : buffer;
    }
    hn::StoreU(hn::MulAdd(direction, minus_lr, parameter), d, p);
  }
};

template <class T>
struct Adam {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const AdamStep& step;
  const V beta1 = hn::Set(D(), static_cast<T>(step.beta1));
  const V fresh1 = hn::Set(D(), static_cast<T>(1 - step.beta1));
  const V beta2 = hn::Set(D(), static_cast<T>(step.beta2));
  const V fresh2 = hn::Set(D(), static_cast<T>(1 - step.beta2));
  const V epsilon = hn::Set(D(), static_cast<T>(step.epsilon));
  const V decay = hn::Set(D(), static_cast<T>(step.weight_decay));
  const V shrink = hn::Set(D(), static_cast<T>(step.shrink));
  const V minus_size = hn::Set(D(), static_cast<T>(-step.step_size));
  const V root = hn::Set(D(), static_cast<T>(step.root_correction));

  HWY_INLINE void vector(T* p, const T* g, T* m, T* s) const {
    const D d;
    V parameter = hn::LoadU(d, p);
    V gradient = hn::LoadU(d, g);
    if (step.weight_decay != 0) gradient = hn::MulAdd(parameter, decay, gradient);
    if (step.shrink != 1) parameter = hn::Mul(parameter, shrink);
    const V mean = hn::MulAdd(gradient, fresh1, hn::Mul(hn::LoadU(d, m), beta1));
    const V square = hn::MulAdd(hn::Mul(fresh2, gradient), gradient, hn::Mul(hn::LoadU(d, s), beta2));
    const V denominator = hn::Add(hn::Div(hn::Sqrt(square), root), epsilon);
    hn::StoreU(mean, d, m);
    hn::StoreU(square, d, s);
    hn::StoreU(hn::Add(parameter, hn::Div(hn::Mul(minus_size, mean), denominator)), d, p);
  }
};

// Whole vectors in place, the rest through vectors on the stack. `arrays` are the parameter, then the others; those
// that are nullptr are not there.
template <class T, class Vector, std::size_t kArrays>
void for_all(T* const (&arrays)[kArrays], std::size_t count, const Vector& vector) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const std::size_t whole = count / lanes * lanes;
  for (std::size_t at = 0; at < whole; at += lanes) vector(arrays, at);
  if (whole == count) return;
  HWY_ALIGN T rest[kArrays][HWY_MAX_BYTES / sizeof(T)] = {};
  T* copies[kArrays];
  for (std::size_t a = 0; a < kArrays; ++a) {
    copies[a] = arrays[a] == nullptr ? nullptr : rest[a];
    if (arrays[a] != nullptr) std::memcpy(rest[a], arrays[a] + whole, (count - whole) * sizeof(T));
  }
  vector(copies, 0);
  for (std::size_t a = 0; a < kArrays; ++a) {
    const bool is_gradient = a == 1;
    if (arrays[a] != nullptr && !is_gradient) std::memcpy(arrays[a] + whole, rest[a], (count - whole) * sizeof(T));
  }
}

template <class T>
void sgd_any(const SgdStep& step, T* parameter, const T* gradient, T* buffer, std::size_t count) {
  const Sgd<T> sgd{step};
  T* const arrays[] = {parameter, const_cast<T*>(gradient), buffer};
  for_all(arrays, count, [&](T* const* a, std::size_t at) HWY_ATTR {
    sgd.vector(a[0] + at, a[1] + at, a[2] == nullptr ? nullptr : a[2] + at);
  });
}

template <class T>
void adam_any(const AdamStep& step, T* parameter, const T* gradient, T* mean, T* square, std::size_t count) {
  const Adam<T> adam{step};
  T* const arrays[] = {parameter, const_cast<T*>(gradient), mean, square};
  for_all(arrays, count,
          [&](T* const* a, std::size_t at) HWY_ATTR { adam.vector(a[0] + at, a[1] + at, a[2] + at, a[3] + at); });
}

void sgd_f32(const SgdStep& step, float* p, const float* g, float* m, std::size_t n) { sgd_any(step, p, g, m, n); }
void sgd_f64(const SgdStep& step, double* p, const double* g, double* m, std::size_t n) { sgd_any(step, p, g, m, n); }
void adam_f32(const AdamStep& step, float* p, const float* g, float* m, float* s, std::size_t n) {
  adam_any(step, p, g, m, s, n);
}
void adam_f64(const AdamStep& step, double* p, const double* g, double* m, double* s, std::size_t n) {
  adam_any(step, p, g, m, s, n);
}

}  // namespace paceline::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(sgd_f32);
HWY_EXPORT(sgd_f64);
HWY_EXPORT(adam_f32);
HWY_EXPORT(adam_f64);

void sgd_step(const SgdStep& step, float* p, const float* g, float* m, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(sgd_f32)(step, p, g, m, n);
}
void sgd_step(const SgdStep& step, double* p, const double* g, double* m, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(sgd_f64)(step, p, g, m, n);
}
void adam_step(const AdamStep& step, float* p, const float* g, float* m, float* s, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(adam_f32)(step, p, g, m, s, n);
}
void adam_step(const AdamStep& step, double* p, const double* g, double* m, double* s, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(adam_f64)(step, p, g, m, s, n);
}

}  // namespace paceline
#endif
