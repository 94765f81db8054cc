#include "paceline/torch/fused_optimizer.hpp"

#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <typeinfo>

namespace paceline {
namespace {

template <class T>
void update_range(const FusedStep& fused, const TensorView& parameter, const TensorView& gradient, std::int64_t first,
                  std::int64_t count) {
  const auto at = [&](void* base) { return base == nullptr ? nullptr : static_cast<T*>(base) + first; };
  const StepArrays<T> arrays{.parameter = at(parameter.data),
                             .gradient = at(gradient.data),
                             .state = {at(fused.state[0]), at(fused.state[1]), at(fused.state[2])}};
  std::visit([&](const auto& step) { fused_step(step, arrays, static_cast<std::size_t>(count)); }, fused.step);
}

}  // namespace

FusedOptimizer::FusedOptimizer(torch::optim::Optimizer& optimizer, const ParameterArena& arena, const FusedRule& rule)
    : optimizer_(optimizer), arena_(arena), rule_(rule) {
  for (std::size_t i = 0; i < arena.size(); ++i) index_of_[arena.parameter(i).unsafeGetTensorImpl()] = i;
}

std::unique_ptr<FusedOptimizer> FusedOptimizer::of(torch::optim::Optimizer& optimizer, const ParameterArena& arena) {
  const FusedRule* rule = rule_for(optimizer);
  if (rule == nullptr) return nullptr;
  std::unique_ptr<FusedOptimizer> fused(new FusedOptimizer(optimizer, arena, *rule));
  return fused->takes_all_parameters() ? std::move(fused) : nullptr;
}

bool FusedOptimizer::takes_all_parameters() const {
  for (auto& group : optimizer_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
      if (found == index_of_.end()) {
        if (parameter.requires_grad()) return false;
        continue;
      }
      const DType dtype = arena_.dtype(found->second);
      if (dtype != DType::f32 && dtype != DType::f64) return false;
    }
  }
  return true;
}

void FusedOptimizer::begin_step(const std::vector<bool>& used) {
  const torch::NoGradGuard no_grad;
  steps_.resize(arena_.size());
  for (auto& group : optimizer_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
      if (found == index_of_.end() || !used[found->second]) continue;
      steps_[found->second] = rule_.prepare(optimizer_, group.options(), parameter);
    }
  }
}

void FusedOptimizer::measure(std::size_t index) {
  if (rule_.measure != nullptr) rule_.measure(steps_[index], arena_.parameter_view(index), arena_.gradient_view(index));
}

void FusedOptimizer::update(std::size_t index, std::int64_t first, std::int64_t count) const {
  const TensorView parameter = arena_.parameter_view(index);
  const auto run = parameter.dtype == DType::f32 ? update_range<float> : update_range<double>;
  run(steps_[index], parameter, arena_.gradient_view(index), first, count);
}

bool FusedOptimizer::stateless() const {
  if (typeid(optimizer_) != typeid(torch::optim::SGD)) return false;
  for (auto& group : optimizer_.param_groups()) {
    if (static_cast<torch::optim::SGDOptions&>(group.options()).momentum() != 0) return false;
  }
  return true;
}

std::vector<torch::Tensor> FusedOptimizer::state_of(std::size_t index) const {
  const auto found = optimizer_.state().find(key_of(arena_.parameter(index)));
  if (found == optimizer_.state().end()) return {};
  return rule_.tensors(*found->second);
}

}  // namespace paceline
