// Activation checkpointing (Chen et al. 2016): of a segment of a model only the input is kept for backward, which then
// runs the segment once more. Memory for the activations inside one segment at a time, for one more forward pass.
#pragma once

#include <torch/types.h>

#include <functional>

namespace paceline {

// segment(input), with gradients as if it had been called directly, bit for bit: backward runs it with the random state
// of the first time. Gradients of what the segment refers to arrive at its parameters' own accumulators, so that hooks
// fire once per parameter and backward, provided that no parameter belongs to two segments. The segment must hold what
// it refers to, and change nothing when it is recomputed; see recomputing(). Without gradients it is a plain call.
torch::Tensor checkpoint(const std::function<torch::Tensor(const torch::Tensor&)>& segment, const torch::Tensor& input);

// Whether this thread runs a segment for the second time. What counts its calls (running statistics) must not then.
bool recomputing();

}  // namespace paceline
