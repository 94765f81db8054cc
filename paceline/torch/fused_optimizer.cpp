#include "paceline/torch/fused_optimizer.hpp"

#include <ATen/Parallel.h>
#include <c10/util/string_utils.h>

#include <cmath>
#include <typeinfo>

#include "paceline/torch/fused_kernels.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // elements per thread, below which threads cost more than they bring

// Calls work(T{}, first, count) for the parameter's type, in parallel if the program has more than one thread.
template <class Work>
void for_elements(const TensorView& view, const Work& work) {
  at::parallel_for(0, view.count, kGrain, [&](std::int64_t first, std::int64_t last) {
    const auto count = static_cast<std::size_t>(last - first);
    view.dtype == DType::f32 ? work(float{}, first, count) : work(double{}, first, count);
  });
}

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
    self->update_ = [self](OptimizerOptions& o, std::size_t i) { self->update_sgd(static_cast<SGDOptions&>(o), i); };
  } else if (typeid(optimizer) == typeid(Adam) && !has_amsgrad<AdamOptions>(optimizer)) {
    self->update_ = [self](OptimizerOptions& o, std::size_t i) {
      self->update_adam<AdamOptions, AdamParamState>(static_cast<AdamOptions&>(o), i, false);
    };
  } else if (typeid(optimizer) == typeid(AdamW) && !has_amsgrad<AdamWOptions>(optimizer)) {
    self->update_ = [self](OptimizerOptions& o, std::size_t i) {
      self->update_adam<AdamWOptions, AdamWParamState>(static_cast<AdamWOptions&>(o), i, true);
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

void FusedOptimizer::step(const std::vector<bool>& used) {
  const torch::NoGradGuard no_grad;
  for (auto& group : optimizer_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
      if (found != index_of_.end() && used[found->second]) update_(group.options(), found->second);
    }
  }
}

template <class State>
State& FusedOptimizer::state_of(std::size_t index, bool& fresh) {
  auto& entry = optimizer_.state()[key_of(arena_.parameter(index))];
  fresh = entry == nullptr;
  if (fresh) entry = std::make_unique<State>();
  return static_cast<State&>(*entry);
}

void FusedOptimizer::update_sgd(const torch::optim::SGDOptions& options, std::size_t index) {
  SgdStep step{.lr = options.lr(),
               .momentum = options.momentum(),
               .dampening = options.dampening(),
               .weight_decay = options.weight_decay(),
               .nesterov = options.nesterov()};
  const torch::Tensor& parameter = arena_.parameter(index);
  void* buffer = nullptr;
  if (options.momentum() != 0) {
    auto& state = state_of<torch::optim::SGDParamState>(index, step.first);
    step.first = step.first || !state.momentum_buffer().defined();
    state.momentum_buffer(step.first ? torch::empty_like(parameter) : dense_like(state.momentum_buffer(), parameter));
    buffer = state.momentum_buffer().data_ptr();
  }
  const TensorView values = arena_.parameter_view(index);
  const void* gradient = arena_.gradient_view(index).data;
  for_elements(values, [&]<class T>(T, std::int64_t first, std::size_t count) {
    T* own = buffer == nullptr ? nullptr : static_cast<T*>(buffer) + first;
    sgd_step(step, static_cast<T*>(values.data) + first, static_cast<const T*>(gradient) + first, own, count);
  });
}

template <class Options, class State>
void FusedOptimizer::update_adam(const Options& options, std::size_t index, bool decoupled) {
  const torch::Tensor& parameter = arena_.parameter(index);
  bool fresh = false;
  State& state = state_of<State>(index, fresh);
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
  const TensorView values = arena_.parameter_view(index);
  const void* gradient = arena_.gradient_view(index).data;
  void* mean = state.exp_avg().data_ptr();
  void* square = state.exp_avg_sq().data_ptr();
  for_elements(values, [&]<class T>(T, std::int64_t first, std::size_t count) {
    adam_step(step, static_cast<T*>(values.data) + first, static_cast<const T*>(gradient) + first,
              static_cast<T*>(mean) + first, static_cast<T*>(square) + first, count);
  });
}

}  // namespace paceline
