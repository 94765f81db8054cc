#include "paceline/torch/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace paceline {

LearningRate::LearningRate(std::string schedule, double base, std::int64_t total_steps)
    : schedule_(std::move(schedule)), base_(base), total_steps_(std::max<std::int64_t>(1, total_steps)) {}

double LearningRate::at(std::int64_t step) const {
  if (schedule_ != "cosine") return base_ * state_.factor;
  const double done = std::min(1.0, static_cast<double>(step) / static_cast<double>(total_steps_));
  return base_ * (1 + std::cos(std::numbers::pi * done)) / 2;
}

void LearningRate::end_epoch(double loss) {
  if (schedule_ != "plateau") return;
  if (state_.best < 0 || loss < state_.best) {
    state_.best = loss;
    state_.worse = 0;
  } else if (++state_.worse == 2) {
    state_.factor /= 2;
    state_.worse = 0;
  }
}

}  // namespace paceline
