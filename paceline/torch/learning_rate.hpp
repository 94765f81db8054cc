// Learning-rate schedules, as functions of how far a run has come.
#pragma once

#include <cstdint>

#include "paceline/torch/rate_spec.hpp"

namespace paceline {

class LearningRate {
 public:
  // Throws Error{invalid} for what check_rate refuses.
  explicit LearningRate(const RateSpec& spec);

  // For the step with this number, counted from 0. Steps beyond the total are a run that was resumed with more epochs.
  double at(std::int64_t step) const;
  // After each epoch, with the loss that drives it.
  void end_epoch(double loss);

  // What a checkpoint must carry.
  struct State {
    double factor = 1;
    double best = -1;  // < 0: none yet
    int worse = 0;     // epochs in a row
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  double warm_up(std::int64_t step) const;
  double shape(std::int64_t step) const;
  double cosine(std::int64_t step) const;
  std::int64_t step_period() const;

  const RateSpec spec_;
  const RateSchedule schedule_;
  State state_;
};

}  // namespace paceline
