#include "paceline/torch/precision.hpp"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace paceline {

ComputeIn::ComputeIn(Precision precision) : lower_(precision == Precision::bf16) {
  if (!lower_) return;
  at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
  at::autocast::set_cpu_enabled(true);
  at::autocast::increment_nesting();
}

ComputeIn::~ComputeIn() {
  if (!lower_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_cpu_enabled(false);
}

double bf16_over_fp32(const std::function<void(Precision)>& work) {
  using StopWatch = std::chrono::steady_clock;
  const auto seconds = [&](Precision precision) {
    const auto start = StopWatch::now();
    work(precision);
    return std::chrono::duration<double>(StopWatch::now() - start).count();
  };
  seconds(Precision::fp32);
  seconds(Precision::bf16);
  std::array<double, 3> ratios{};
  for (double& ratio : ratios) {
    const double full = seconds(Precision::fp32);
    ratio = seconds(Precision::bf16) / full;
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[1];
}

}  // namespace paceline
