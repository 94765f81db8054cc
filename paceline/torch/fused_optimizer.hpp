// FusedOptimizer: what torch::optim::SGD, Adam and AdamW do in several passes over memory, in one. It works on the
// optimizer's own options and state, so that learning-rate schedulers, torch::save(optimizer) and a later stock step()
// see what they would have seen.
#pragma once

#include <torch/optim.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "paceline/torch/fused_kernels.hpp"
#include "paceline/torch/parameter_arena.hpp"

namespace paceline {

class FusedOptimizer {
 public:
  // nullptr if this optimizer has no fused form: another class, amsgrad, types other than f32 and f64, or parameters
  // outside the arena.
  static std::unique_ptr<FusedOptimizer> of(torch::optim::Optimizer& optimizer, const ParameterArena& arena);

  // A step in two parts, so that callers can cut it up: first, for all parameters with used[index in the arena], the
  // state is made and counted up; then `update` changes ranges of elements, each once, on any thread.
  void begin_step(const std::vector<bool>& used);
  void update(std::size_t index, std::int64_t first, std::int64_t count) const;

  // Plain SGD: nothing to remember from step to step.
  bool stateless() const;
  // The state's tensors of a parameter, as long as it; laid out like it. None before its first step.
  std::vector<torch::Tensor> state_of(std::size_t index) const;

 private:
  // What update needs of a parameter; for the step at hand.
  struct Prepared {
    std::variant<SgdStep, AdamStep> step;
    void* state[2] = {nullptr, nullptr};
  };
  using Prepare = std::function<Prepared(torch::optim::OptimizerOptions&, std::size_t index)>;
  FusedOptimizer(torch::optim::Optimizer& optimizer, const ParameterArena& arena);
  Prepared prepare_sgd(const torch::optim::SGDOptions& options, std::size_t index);
  template <class Options, class State>
  Prepared prepare_adam(const Options& options, std::size_t index, bool decoupled);
  template <class State>
  State& own_state(std::size_t index, bool& fresh);

  torch::optim::Optimizer& optimizer_;
  const ParameterArena& arena_;
  std::unordered_map<const void*, std::size_t> index_of_;  // by TensorImpl
  Prepare prepare_;
  std::vector<Prepared> prepared_;  // by index in the arena
};

}  // namespace paceline
