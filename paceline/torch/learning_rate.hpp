// Learning-rate schedules, as functions of how far a run has come.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

class LearningRate {
 public:
  // `schedule` is constant, cosine (to zero at `total_steps`, Loshchilov & Hutter 2017) or plateau (halved whenever the
  // metric of two epochs in a row was no better than the best before).
  LearningRate(std::string schedule, double base, std::int64_t total_steps);

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
  const std::string schedule_;
  const double base_;
  const std::int64_t total_steps_;
  State state_;
};

}  // namespace paceline
