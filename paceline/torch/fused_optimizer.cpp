#include "paceline/torch/fused_optimizer.hpp"

#include <c10/util/string_utils.h>

#include <cmath>
#include <typeinfo>

namespace paceline {
namespace {

std::string key_of(const torch::Tensor& tensor) { return c10::guts::to_string(tensor.unsafeGetTensorImpl()); }

// State as the stock optimizer makes it; it may also come from a checkpoint, in any layout.
torch::Tensor dense_like(const torch::Tensor& state, const torch::Tensor& parameter) {
  return state.strides() == parameter.strides() ? state : torch::empty_like(parameter).copy_(state);
}

template <class Options>
bool has_amsgrad(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    if (static_cast<Options&>(group.options()).amsgrad()) return true;
  }
  return false;
}

}  // namespace

FusedOptimizer::FusedOptimizer(torch::optim::Optimizer& optimizer, const ParameterArena& arena)
    : optimizer_(optimizer), arena_(arena) {
  for (std::size_t i = 0; i < arena.size(); ++i) index_of_[arena.parameter(i).unsafeGetTensorImpl()] = i;
}

std::unique_ptr<FusedOptimizer> FusedOptimizer::of(torch::optim::Optimizer& optimizer, const ParameterArena& arena) {
  using namespace torch::optim;
  std::unique_ptr<FusedOptimizer> fused(new FusedOptimizer(optimizer, arena));
  FusedOptimizer* self = fused.get();
  // Exactly these classes: a derived one may do more.
  if (typeid(optimizer) == typeid(SGD)) {
    self->prepare_ = [self](OptimizerOptions& o, std::size_t i) {
      return self->prepare_sgd(static_cast<SGDOptions&>(o), i);
    };
  } else if (typeid(optimizer) == typeid(Adam) && !has_amsgrad<AdamOptions>(optimizer)) {
    self->prepare_ = [self](OptimizerOptions& o, std::size_t i) {
      return self->prepare_adam<AdamOptions, AdamParamState>(static_cast<AdamOptions&>(o), i, false);
    };
  } else if (typeid(optimizer) == typeid(AdamW) && !has_amsgrad<AdamWOptions>(optimizer)) {
    self->prepare_ = [self](OptimizerOptions& o, std::size_t i) {
      return self->prepare_adam<AdamWOptions, AdamWParamState>(static_cast<AdamWOptions&>(o), i, true);
    };
  } else {
    return nullptr;
  }
  for (auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = self->index_of_.find(parameter.unsafeGetTensorImpl());
      if (found == self->index_of_.end()) {
        if (parameter.requires_grad()) return nullptr;
        continue;
      }
      const DType dtype = arena.dtype(found->second);
      if (dtype != DType::f32 && dtype != DType::f64) return nullptr;
    }
  }
  return fused;
}

void FusedOptimizer::begin_step(const std::vector<bool>& used) {
  const torch::NoGradGuard no_grad;
  prepared_.resize(arena_.size());
  for (auto& group : optimizer_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
      if (found == index_of_.end() || !used[found->second]) continue;
      prepared_[found->second] = prepare_(group.options(), found->second);
    }
  }
}

void FusedOptimizer::update(std::size_t index, std::int64_t first, std::int64_t count) const {
  const Prepared& prepared = prepared_[index];
  const TensorView parameter = arena_.parameter_view(index);
  const void* gradient = arena_.gradient_view(index).data;
  const auto n = static_cast<std::size_t>(count);
  const auto run = [&]<class T>(T) {
    const auto at = [&](void* base) { return base == nullptr ? nullptr : static_cast<T*>(base) + first; };
    T* own = static_cast<T*>(parameter.data) + first;
    const T* theirs = static_cast<const T*>(gradient) + first;
    if (const auto* sgd = std::get_if<SgdStep>(&prepared.step)) {
      sgd_step(*sgd, own, theirs, at(prepared.state[0]), n);
    } else {
      adam_step(std::get<AdamStep>(prepared.step), own, theirs, at(prepared.state[0]), at(prepared.state[1]), n);
    }
  };
  parameter.dtype == DType::f32 ? run(float{}) : run(double{});
}

bool FusedOptimizer::stateless() const {
  if (typeid(optimizer_) != typeid(torch::optim::SGD)) return false;
  for (auto& group : optimizer_.param_groups()) {
    if (static_cast<torch::optim::SGDOptions&>(group.options()).momentum() != 0) return false;
  }
  return true;
}

std::vector<torch::Tensor> FusedOptimizer::state_of(std::size_t index) const {
  using namespace torch::optim;
  const auto found = optimizer_.state().find(key_of(arena_.parameter(index)));
  if (found == optimizer_.state().end()) return {};
  OptimizerParamState* state = found->second.get();
  if (auto* sgd = dynamic_cast<SGDParamState*>(state)) return {sgd->momentum_buffer()};
  if (auto* adam = dynamic_cast<AdamParamState*>(state)) return {adam->exp_avg(), adam->exp_avg_sq()};
  if (auto* adamw = dynamic_cast<AdamWParamState*>(state)) return {adamw->exp_avg(), adamw->exp_avg_sq()};
  return {};
}

template <class State>
State& FusedOptimizer::own_state(std::size_t index, bool& fresh) {
  auto& entry = optimizer_.state()[key_of(arena_.parameter(index))];
  fresh = entry == nullptr;
  if (fresh) entry = std::make_unique<State>();
  return static_cast<State&>(*entry);
}

FusedOptimizer::Prepared FusedOptimizer::prepare_sgd(const torch::optim::SGDOptions& options, std::size_t index) {
  SgdStep step{.lr = options.lr(),
               .momentum = options.momentum(),
               .dampening = options.dampening(),
               .weight_decay = options.weight_decay(),
               .nesterov = options.nesterov()};
  if (options.momentum() == 0) return {.step = step};
  const torch::Tensor& parameter = arena_.parameter(index);
  auto& state = own_state<torch::optim::SGDParamState>(index, step.first);
  step.first = step.first || !state.momentum_buffer().defined();
  state.momentum_buffer(step.first ? torch::zeros_like(parameter) : dense_like(state.momentum_buffer(), parameter));
  return {.step = step, .state = {state.momentum_buffer().data_ptr(), nullptr}};
}

template <class Options, class State>
FusedOptimizer::Prepared FusedOptimizer::prepare_adam(const Options& options, std::size_t index, bool decoupled) {
  const torch::Tensor& parameter = arena_.parameter(index);
  bool fresh = false;
  State& state = own_state<State>(index, fresh);
  if (fresh) {
    state.step(0);
    state.exp_avg(torch::zeros_like(parameter));
    state.exp_avg_sq(torch::zeros_like(parameter));
  }
  state.exp_avg(dense_like(state.exp_avg(), parameter));
  state.exp_avg_sq(dense_like(state.exp_avg_sq(), parameter));
  state.step(state.step() + 1);
  const auto [beta1, beta2] = options.betas();
  const auto t = static_cast<double>(state.step());
  const AdamStep step{.beta1 = beta1,
                      .beta2 = beta2,
                      .epsilon = options.eps(),
                      .weight_decay = decoupled ? 0 : options.weight_decay(),
                      .shrink = decoupled ? 1 - options.lr() * options.weight_decay() : 1,
                      .step_size = options.lr() / (1 - std::pow(beta1, t)),
                      .root_correction = std::sqrt(1 - std::pow(beta2, t))};
  return {.step = step, .state = {state.exp_avg().data_ptr(), state.exp_avg_sq().data_ptr()}};
}

}  // namespace paceline
