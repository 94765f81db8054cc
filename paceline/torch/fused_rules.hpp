// FusedRule: how the options and the state of one class of optimizers become steps of a kernel. One row for each class
// that FusedOptimizer knows.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <variant>
#include <vector>

#include "paceline/core/tensor_view.hpp"
#include "paceline/torch/fused_kernels.hpp"

namespace paceline {

// Of one parameter, for the step at hand.
struct FusedStep {
  std::variant<SgdStep, AdamStep, AdagradStep, RmspropStep, LambStep> step = {};
  void* state[3] = {nullptr, nullptr, nullptr};
  const torch::optim::OptimizerOptions* options = nullptr;
};

struct FusedRule {
  bool (*fits)(torch::optim::Optimizer& optimizer);
  // Makes the parameter's state as the stock optimizer would if there is none, and counts it up.
  FusedStep (*prepare)(torch::optim::Optimizer& optimizer, const torch::optim::OptimizerOptions& options,
                       const torch::Tensor& parameter);
  // The state's tensors, those that are there.
  std::vector<torch::Tensor> (*tensors)(const torch::optim::OptimizerParamState& state);
  // What the step must know of the whole parameter, put into it; nullptr where each element is updated by itself.
  void (*measure)(FusedStep& step, const TensorView& parameter, const TensorView& gradient);
};

// Where an optimizer keeps the state of a parameter.
std::string key_of(const torch::Tensor& parameter);

// nullptr if the optimizer has no fused form.
const FusedRule* rule_for(torch::optim::Optimizer& optimizer);

}  // namespace paceline
