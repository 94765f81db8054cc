// What the tests of noise and statistics share: a linear model, mean of w.x over the examples, whose examples'
// gradients are the x themselves, drawn with a mean and a covariance that are known.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "paceline/torch/gradient_parts.hpp"

namespace paceline {

struct LinearProblem {
  std::vector<double> mean;
  std::vector<double> deviation;

  double trace() const {
    double sum = 0;
    for (const double d : deviation) sum += d * d;
    return sum;
  }
  double squared_mean() const {
    double sum = 0;
    for (const double m : mean) sum += m * m;
    return sum;
  }
  torch::Tensor examples(std::int64_t count, at::Generator& generator) const {
    const auto width = static_cast<std::int64_t>(mean.size());
    const torch::Tensor x = torch::randn({count, width}, generator, torch::TensorOptions().dtype(torch::kDouble));
    return (x * torch::tensor(deviation, torch::kDouble) + torch::tensor(mean, torch::kDouble)).to(torch::kFloat);
  }
};

inline const LinearProblem kProblem{.mean = {1.0, -2.0, 0.0, 0.5, 0.1}, .deviation = {0.5, 1.0, 2.0, 0.1, 4.0}};

// One step's gradients of `w`, from parts of the given sizes: weights as of one worker that has `examples` of `all`.
inline void backward_in_parts(const torch::Tensor& w, const torch::Tensor& examples,
                              const std::vector<std::int64_t>& sizes, GradientParts& parts, double ranks = 1,
                              std::int64_t all = 0) {
  if (all == 0) all = examples.size(0);
  w.mutable_grad() = torch::Tensor();
  parts.begin();
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    const double weight = static_cast<double>(size) * ranks / static_cast<double>(all);
    (torch::mv(examples.narrow(0, first, size), w).mean() * weight).backward();
    parts.after_part({.examples = size, .weight = weight});
    first += size;
  }
}

}  // namespace paceline
