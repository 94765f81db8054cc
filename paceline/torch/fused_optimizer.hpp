// FusedOptimizer: what torch::optim::SGD, Adam and AdamW do in several passes over memory, in one. It works on the
// optimizer's own options and state, so that learning-rate schedulers, torch::save(optimizer) and a later stock step()
// see what they would have seen.
#pragma once

#include <torch/optim.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "paceline/torch/parameter_arena.hpp"

namespace paceline {

class FusedOptimizer {
 public:
  // nullptr if this optimizer has no fused form: another class, amsgrad, types other than f32 and f64, or parameters
  // outside the arena.
  static std::unique_ptr<FusedOptimizer> of(torch::optim::Optimizer& optimizer, const ParameterArena& arena);

  // Updates the parameters for which used[index in the arena] is true.
  void step(const std::vector<bool>& used);

 private:
  using Update = std::function<void(torch::optim::OptimizerOptions&, std::size_t index)>;
  FusedOptimizer(torch::optim::Optimizer& optimizer, const ParameterArena& arena);
  void update_sgd(const torch::optim::SGDOptions& options, std::size_t index);
  template <class Options, class State>
  void update_adam(const Options& options, std::size_t index, bool decoupled);
  template <class State>
  State& state_of(std::size_t index, bool& fresh);

  torch::optim::Optimizer& optimizer_;
  const ParameterArena& arena_;
  std::unordered_map<const void*, std::size_t> index_of_;  // by TensorImpl
  Update update_;
};

}  // namespace paceline
