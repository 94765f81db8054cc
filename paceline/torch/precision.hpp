// In which numbers a model computes. Parameters, gradients and updates stay f32; with bf16 the large products of
// forward and backward are taken in bf16, which processors with such instructions do in less time, others in more.
#pragma once

#include <functional>

#include "paceline/torch/predict_config.hpp"

namespace paceline {

// While it lives, forward computes in this precision on this thread; backward follows it. The casts of a parameter are
// kept until then, so it must not outlive an update.
class ComputeIn {
 public:
  explicit ComputeIn(Precision precision);
  ~ComputeIn();
  ComputeIn(const ComputeIn&) = delete;
  ComputeIn& operator=(const ComputeIn&) = delete;

 private:
  const bool lower_;
};

// How many times as long `work` takes in bf16: the median of a few alternating pairs, after one of each that is not
// counted.
double bf16_over_fp32(const std::function<void(Precision)>& work);

}  // namespace paceline
