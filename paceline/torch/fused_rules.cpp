#include "paceline/torch/fused_rules.hpp"

#include <c10/util/string_utils.h>
#include <torch/optim.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <typeinfo>

#include "paceline/torch/lamb.hpp"
#include "paceline/torch/lars.hpp"
#include "paceline/torch/trust_ratio.hpp"

namespace paceline {
namespace {

using torch::Tensor;
using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

// Exactly this class: a derived one may do more.
template <class Class>
bool is(Optimizer& optimizer) {
  return typeid(optimizer) == typeid(Class);
}

template <class Class, class Options>
bool is_without_amsgrad(Optimizer& optimizer) {
  auto& groups = optimizer.param_groups();
  return is<Class>(optimizer) && std::none_of(groups.begin(), groups.end(), [](auto& group) {
           return static_cast<Options&>(group.options()).amsgrad();
         });
}

template <class State>
State& own(Optimizer& optimizer, const Tensor& parameter) {
  auto& entry = optimizer.state()[key_of(parameter)];
  if (entry == nullptr) entry = std::make_unique<State>();
  return static_cast<State&>(*entry);
}

// State as the stock optimizer makes it; it may also come from a checkpoint, in any layout.
Tensor home(const Tensor& state, const Tensor& parameter, double initial = 0) {
  if (!state.defined()) return torch::full_like(parameter, initial, torch::TensorOptions().requires_grad(false));
  return state.strides() == parameter.strides() ? state : torch::empty_like(parameter).copy_(state);
}

std::vector<Tensor> defined(std::initializer_list<Tensor> tensors) {
  std::vector<Tensor> there;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(there), [](const Tensor& t) { return t.defined(); });
  return there;
}

// ---- SGD

FusedStep prepare_sgd(Optimizer& optimizer, const OptimizerOptions& any, const Tensor& parameter) {
  const auto& options = static_cast<const torch::optim::SGDOptions&>(any);
  SgdStep step{.lr = options.lr(),
               .momentum = options.momentum(),
               .intake = 1 - options.dampening(),
               .weight_decay = options.weight_decay(),
               .nesterov = options.nesterov()};
  if (options.momentum() == 0) return {.step = step};
  auto& state = own<torch::optim::SGDParamState>(optimizer, parameter);
  step.first = !state.momentum_buffer().defined();
  state.momentum_buffer(home(state.momentum_buffer(), parameter));
  return {.step = step, .state = {state.momentum_buffer().data_ptr()}};
}

std::vector<Tensor> tensors_of_sgd(const OptimizerParamState& state) {
  return defined({static_cast<const torch::optim::SGDParamState&>(state).momentum_buffer()});
}

// ---- Adam, AdamW; Lamb has the same state

template <class State>
State& next_moments(Optimizer& optimizer, const Tensor& parameter) {
  State& state = own<State>(optimizer, parameter);
  state.exp_avg(home(state.exp_avg(), parameter));
  state.exp_avg_sq(home(state.exp_avg_sq(), parameter));
  state.step(state.step() + 1);
  return state;
}

template <class Options>
AdamStep adam_step(const Options& options, std::int64_t count) {
  const auto [beta1, beta2] = options.betas();
  const auto t = static_cast<double>(count);
  return {.beta1 = beta1,
          .beta2 = beta2,
          .epsilon = options.eps(),
          .step_size = options.lr() / (1 - std::pow(beta1, t)),
          .root_correction = std::sqrt(1 - std::pow(beta2, t))};
}

template <class Options, class State, bool kDecoupled>
FusedStep prepare_adam(Optimizer& optimizer, const OptimizerOptions& any, const Tensor& parameter) {
  const auto& options = static_cast<const Options&>(any);
  const State& state = next_moments<State>(optimizer, parameter);
  AdamStep step = adam_step(options, state.step());
  if (kDecoupled) {
    step.shrink = 1 - options.lr() * options.weight_decay();
  } else {
    step.weight_decay = options.weight_decay();
  }
  return {.step = step, .state = {state.exp_avg().data_ptr(), state.exp_avg_sq().data_ptr()}};
}

template <class State>
std::vector<Tensor> tensors_of_moments(const OptimizerParamState& any) {
  const auto& state = static_cast<const State&>(any);
  return defined({state.exp_avg(), state.exp_avg_sq()});
}

// ---- Adagrad

FusedStep prepare_adagrad(Optimizer& optimizer, const OptimizerOptions& any, const Tensor& parameter) {
  const auto& options = static_cast<const torch::optim::AdagradOptions&>(any);
  auto& state = own<torch::optim::AdagradParamState>(optimizer, parameter);
  state.sum(home(state.sum(), parameter, options.initial_accumulator_value()));
  const auto before = static_cast<double>(state.step());
  state.step(state.step() + 1);
  const AdagradStep step{.lr = options.lr() / (1 + before * options.lr_decay()),
                         .epsilon = options.eps(),
                         .weight_decay = options.weight_decay()};
  return {.step = step, .state = {state.sum().data_ptr()}};
}

std::vector<Tensor> tensors_of_adagrad(const OptimizerParamState& state) {
  return defined({static_cast<const torch::optim::AdagradParamState&>(state).sum()});
}

// ---- RMSprop

FusedStep prepare_rmsprop(Optimizer& optimizer, const OptimizerOptions& any, const Tensor& parameter) {
  const auto& options = static_cast<const torch::optim::RMSpropOptions&>(any);
  auto& state = own<torch::optim::RMSpropParamState>(optimizer, parameter);
  state.step(state.step() + 1);
  state.square_avg(home(state.square_avg(), parameter));
  FusedStep fused{.step = RmspropStep{.lr = options.lr(),
                                      .alpha = options.alpha(),
                                      .epsilon = options.eps(),
                                      .weight_decay = options.weight_decay(),
                                      .momentum = options.momentum()},
                  .state = {state.square_avg().data_ptr()}};
  if (options.momentum() > 0) {
    state.momentum_buffer(home(state.momentum_buffer(), parameter));
    fused.state[1] = state.momentum_buffer().data_ptr();
  }
  if (options.centered()) {
    state.grad_avg(home(state.grad_avg(), parameter));
    fused.state[2] = state.grad_avg().data_ptr();
  }
  return fused;
}

std::vector<Tensor> tensors_of_rmsprop(const OptimizerParamState& any) {
  const auto& state = static_cast<const torch::optim::RMSpropParamState&>(any);
  return defined({state.square_avg(), state.momentum_buffer(), state.grad_avg()});
}

// ---- Lars: SGD's kernel, with the rate inside the buffer

void set_rate(SgdStep& step, double rate) { (step.momentum == 0 ? step.lr : step.intake) = rate; }

FusedStep prepare_lars(Optimizer& optimizer, const OptimizerOptions& any, const Tensor& parameter) {
  const auto& options = static_cast<const LarsOptions&>(any);
  const bool adapts = has_trust_ratio(parameter);
  SgdStep step{.lr = 1, .momentum = options.momentum(), .weight_decay = adapts ? options.weight_decay() : 0};
  set_rate(step, options.lr());
  FusedStep fused{.step = step, .options = adapts ? &options : nullptr};
  if (options.momentum() == 0) return fused;
  auto& state = own<LarsParamState>(optimizer, parameter);
  state.momentum_buffer(home(state.momentum_buffer(), parameter));
  fused.state[0] = state.momentum_buffer().data_ptr();
  return fused;
}

std::vector<Tensor> tensors_of_lars(const OptimizerParamState& state) {
  return defined({static_cast<const LarsParamState&>(state).momentum_buffer()});
}

void measure_lars(FusedStep& fused, const TensorView& parameter, const TensorView& gradient) {
  if (fused.options == nullptr) return;
  const auto& options = static_cast<const LarsOptions&>(*fused.options);
  set_rate(std::get<SgdStep>(fused.step), options.lr() * options.trust_ratio(norm_of(parameter), norm_of(gradient)));
}

// ---- Lamb: without a trust ratio and decay, it is Adam

FusedStep prepare_lamb(Optimizer& optimizer, const OptimizerOptions& any, const Tensor& parameter) {
  const auto& options = static_cast<const LambOptions&>(any);
  const LambParamState& state = next_moments<LambParamState>(optimizer, parameter);
  const AdamStep adam = adam_step(options, state.step());
  FusedStep fused{.step = adam, .state = {state.exp_avg().data_ptr(), state.exp_avg_sq().data_ptr()}};
  if (!has_trust_ratio(parameter)) return fused;
  fused.step = LambStep{.beta1 = adam.beta1,
                        .beta2 = adam.beta2,
                        .epsilon = adam.epsilon,
                        .weight_decay = options.weight_decay(),
                        .mean_correction = 1 / (1 - std::pow(adam.beta1, static_cast<double>(state.step()))),
                        .root_correction = adam.root_correction};
  fused.options = &options;
  return fused;
}

template <class T>
SquareSums lamb_norms(const LambStep& step, const FusedStep& fused, const TensorView& parameter,
                      const TensorView& gradient) {
  return sum_over_blocks(parameter.count, [&](std::int64_t first, std::int64_t count) -> SquareSums {
    T direction[kNormBlock];
    T* own = static_cast<T*>(parameter.data) + first;
    const auto n = static_cast<std::size_t>(count);
    lamb_direction(
        step,
        {.parameter = own,
         .gradient = static_cast<const T*>(gradient.data) + first,
         .state = {static_cast<T*>(fused.state[0]) + first, static_cast<T*>(fused.state[1]) + first, direction}},
        n);
    return {.parameter = square_sum(own, n), .direction = square_sum(direction, n)};
  });
}

void measure_lamb(FusedStep& fused, const TensorView& parameter, const TensorView& gradient) {
  if (fused.options == nullptr) return;
  auto& step = std::get<LambStep>(fused.step);
  const SquareSums sums = parameter.dtype == DType::f32 ? lamb_norms<float>(step, fused, parameter, gradient)
                                                        : lamb_norms<double>(step, fused, parameter, gradient);
  step.step_size =
      fused.options->get_lr() * LambOptions::trust_ratio(std::sqrt(sums.parameter), std::sqrt(sums.direction));
}

// ---- all of them

using namespace torch::optim;
constexpr FusedRule kRules[] = {
    {is<SGD>, prepare_sgd, tensors_of_sgd, nullptr},
    {is_without_amsgrad<Adam, AdamOptions>, prepare_adam<AdamOptions, AdamParamState, false>,
     tensors_of_moments<AdamParamState>, nullptr},
    {is_without_amsgrad<AdamW, AdamWOptions>, prepare_adam<AdamWOptions, AdamWParamState, true>,
     tensors_of_moments<AdamWParamState>, nullptr},
    {is<Adagrad>, prepare_adagrad, tensors_of_adagrad, nullptr},
    {is<RMSprop>, prepare_rmsprop, tensors_of_rmsprop, nullptr},
    {is<Lars>, prepare_lars, tensors_of_lars, measure_lars},
    {is<Lamb>, prepare_lamb, tensors_of_moments<LambParamState>, measure_lamb},
};

}  // namespace

std::string key_of(const torch::Tensor& parameter) { return c10::guts::to_string(parameter.unsafeGetTensorImpl()); }

const FusedRule* rule_for(torch::optim::Optimizer& optimizer) {
  const auto found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const FusedRule& rule) { return rule.fits(optimizer); });
  return found == std::end(kRules) ? nullptr : found;
}

}  // namespace paceline
