// What Lars and Lamb share: each parameter has a rate of its own, which comes from norms of the whole parameter.
//
// Note [Norms and replicas]. Every rank computes every norm for itself, so all must get the same bits, whatever their
// number of ATen threads: a norm is added up in fixed blocks, and their sums one after the other.
#pragma once

#include <torch/types.h>

#include <functional>

#include "paceline/core/tensor_view.hpp"

namespace paceline {

// Biases, and scale and shift of normalisation layers, which have one dimension, keep the plain rate and do not decay.
// For decay that is Jia et al. 2018 ("Highly scalable deep learning training system"); for both it is what the authors'
// published code of LAMB and the MLPerf reference of LARS do, by the parameters' names.
bool has_trust_ratio(const torch::Tensor& parameter);

// Of elements of f32 or f64; and of any dense tensor of floating elements.
double norm_of(const TensorView& values);
double norm_of(const torch::Tensor& tensor);

// The sums of what `block` returns for each fixed range [first, first + count) of `total` elements, in order. Blocks
// run on ATen's threads.
struct SquareSums {
  double parameter = 0;
  double direction = 0;
};
inline constexpr std::int64_t kNormBlock = 4096;
SquareSums sum_over_blocks(std::int64_t total,
                           const std::function<SquareSums(std::int64_t first, std::int64_t count)>& block);

}  // namespace paceline
