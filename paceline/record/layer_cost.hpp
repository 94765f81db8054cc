// What a layer of a model costs: to compute and, of its gradient, to send. Without torch, so that a report can show it.
//
// Note [Predicted communication]. In data-parallel training every worker computes on its own examples, and the gradient
// of every parameter travels once per step. A ring allreduce of S bytes between n workers sends 2S(n-1)/n bytes from
// each (Patarasuk & Yuan 2009); over a link of rate R that takes 2S(n-1)/(nR) seconds. This is the alpha-beta model
// without its alpha: latency is left out, and so is whatever is hidden behind backward. The measured time to compute a
// step is dealt out to the layers by their FLOPs. A layer with many parameters per FLOP (VGG's first fully connected
// one) therefore waits for the network, one with few (a convolution of ResNet) does not.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

struct LayerCost {
  std::string name;
  std::int64_t parameters = 0;
  double flops = 0;  // of the forward pass of one example
};

inline constexpr std::array kLinkGigabits = {1, 10, 100};

struct LayerShare {
  double gradient = 0;                                     // of the gradient's bytes
  double compute_seconds = 0;                              // of one step
  std::array<double, kLinkGigabits.size()> communicate{};  // of compute and communication together, at kLinkGigabits
};

struct LayerShares {
  std::vector<LayerShare> layers;
  LayerShare whole;
};

// See Note [Predicted communication]. `compute_seconds`: measured, of one worker and one step. Parameters are f32. NaN
// where something is not known.
LayerShares layer_shares(const std::vector<LayerCost>& layers, int workers, double compute_seconds);

}  // namespace paceline
