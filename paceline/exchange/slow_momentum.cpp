#include "paceline/exchange/slow_momentum.hpp"

#include <cstring>

#include "paceline/exchange/float_ranges.hpp"

namespace paceline {
namespace {

template <class T>
struct SlowStep {
  T beta;
  T rate;
  void operator()(T& parameter, T& before, T& momentum) const {
    momentum = beta * momentum + (before - parameter) / rate;
    parameter = before - rate * momentum;
    before = parameter;
  }
};

}  // namespace

SlowMomentum::SlowMomentum(const std::vector<TensorView>& parameters, double beta)
    : parameters_(parameters), beta_(beta) {
  if (beta_ == 0) return;
  require_floats(parameters_, "slow momentum");
  std::size_t bytes = 0;
  for (const TensorView& range : parameters_) bytes += range.bytes();
  before_.resize(bytes);
  momentum_.resize(bytes);
  keep_parameters();
}

void SlowMomentum::end_round(const std::function<double()>& rate_now) {
  if (beta_ == 0) return;
  const double rate = rate_now();
  if (!(rate > 0)) return keep_parameters();
  each_range(parameters_, [&]<class T>(std::span<T> parameters, std::size_t at) {
    T* const before = reinterpret_cast<T*>(before_.data() + at);
    T* const momentum = reinterpret_cast<T*>(momentum_.data() + at);
    const SlowStep<T> step{static_cast<T>(beta_), static_cast<T>(rate)};
    for (std::size_t i = 0; i < parameters.size(); ++i) step(parameters[i], before[i], momentum[i]);
  });
}

void SlowMomentum::keep_parameters() {
  std::size_t at = 0;
  for (const TensorView& range : parameters_) {
    std::memcpy(before_.data() + at, range.data, range.bytes());
    at += range.bytes();
  }
}

}  // namespace paceline
