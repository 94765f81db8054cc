#include "paceline/torch/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace paceline {
namespace {

const RateSpec& checked(const RateSpec& spec) {
  check_rate(spec);
  return spec;
}

}  // namespace

LearningRate::LearningRate(const RateSpec& spec) : spec_(checked(spec)), schedule_(parse_schedule(spec.schedule)) {}

double LearningRate::at(std::int64_t step) const { return spec_.base * warm_up(step) * shape(step); }

// A factor beside the schedule, so that the one flows into the other at the end, whatever the schedule.
double LearningRate::warm_up(std::int64_t step) const {
  if (step >= spec_.warmup_steps) return 1;
  return static_cast<double>(step + 1) / static_cast<double>(spec_.warmup_steps);
}

double LearningRate::shape(std::int64_t step) const {
  switch (schedule_.kind) {
    case RateSchedule::Kind::constant: return 1;
    case RateSchedule::Kind::step: return std::pow(schedule_.factor, static_cast<double>(step / step_period()));
    case RateSchedule::Kind::exponential:
      return std::pow(schedule_.factor, static_cast<double>(step / spec_.steps_per_epoch));
    case RateSchedule::Kind::inverse_sqrt: {
      const auto whole = static_cast<double>(std::max<std::int64_t>(1, spec_.warmup_steps));
      return std::sqrt(whole / std::max(whole, static_cast<double>(step + 1)));
    }
    case RateSchedule::Kind::cosine: return cosine(step);
    case RateSchedule::Kind::plateau: return state_.factor;
  }
  return 1;
}

// From the end of the warm-up to the end of the run.
double LearningRate::cosine(std::int64_t step) const {
  const std::int64_t length = std::max<std::int64_t>(1, spec_.total_steps - spec_.warmup_steps);
  const double done = static_cast<double>(step - spec_.warmup_steps) / static_cast<double>(length);
  return (1 + std::cos(std::numbers::pi * std::clamp(done, 0.0, 1.0))) / 2;
}

std::int64_t LearningRate::step_period() const {
  constexpr std::int64_t kParts = 3;
  if (schedule_.every_epochs > 0) return schedule_.every_epochs * spec_.steps_per_epoch;
  return std::max<std::int64_t>(1, (spec_.total_steps + kParts - 1) / kParts);
}

void LearningRate::end_epoch(double loss) {
  if (schedule_.kind != RateSchedule::Kind::plateau) return;
  if (state_.best < 0 || loss < state_.best) {
    state_.best = loss;
    state_.worse = 0;
  } else if (++state_.worse == 2) {
    state_.factor /= 2;
    state_.worse = 0;
  }
}

}  // namespace paceline
