// FusedOptimizer: what torch::optim's optimizers do in several passes over memory, in one: SGD, Adam, AdamW, Adagrad
// and RMSprop; Lars and Lamb, which need norms of whole parameters, in two. It works on the optimizer's own options and
// state, so that learning-rate schedulers, torch::save(optimizer) and a later stock step() see what they would have
// seen.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "paceline/torch/fused_rules.hpp"
#include "paceline/torch/parameter_arena.hpp"

namespace paceline {

class FusedOptimizer {
 public:
  // nullptr if this optimizer has no fused form: another class, amsgrad, types other than f32 and f64, or parameters
  // outside the arena.
  static std::unique_ptr<FusedOptimizer> of(torch::optim::Optimizer& optimizer, const ParameterArena& arena);

  // A step in parts, so that callers can cut it up: first, for all parameters with used[index in the arena], the state
  // is made and counted up; then each of them is measured, unless sliceable(); then `update` changes ranges of its
  // elements, each once, on any thread.
  void begin_step(const std::vector<bool>& used);
  void measure(std::size_t index);
  void update(std::size_t index, std::int64_t first, std::int64_t count) const;

  // Every element is updated by itself, so that ranks can share the work. Otherwise an update needs the whole averaged
  // gradient and the whole state of each parameter, and every rank must do all of it.
  bool sliceable() const { return rule_.measure == nullptr; }
  // Plain SGD: nothing to remember from step to step.
  bool stateless() const;
  // The state's tensors of a parameter, as long as it; laid out like it. None before its first step.
  std::vector<torch::Tensor> state_of(std::size_t index) const;

 private:
  FusedOptimizer(torch::optim::Optimizer& optimizer, const ParameterArena& arena, const FusedRule& rule);
  bool takes_all_parameters() const;

  torch::optim::Optimizer& optimizer_;
  const ParameterArena& arena_;
  const FusedRule& rule_;
  std::unordered_map<const void*, std::size_t> index_of_;  // by TensorImpl
  std::vector<FusedStep> steps_;                           // by index in the arena
};

}  // namespace paceline
