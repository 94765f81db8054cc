#include "paceline/torch/lamb.hpp"

#include <c10/util/string_utils.h>
#include <torch/optim/serialize.h>
#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/torch/trust_ratio.hpp"

namespace paceline {

void LambOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
}

void LambOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
}

void LambParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg_sq);
}

void LambParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, step);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, exp_avg_sq);
}

double LambOptions::trust_ratio(double parameter_norm, double direction_norm) {
  return parameter_norm == 0 || direction_norm == 0 ? 1 : parameter_norm / direction_norm;
}

Lamb::Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, LambOptions defaults)
    : Optimizer(std::move(groups), std::make_unique<LambOptions>(defaults)) {
  const auto is_share = [](double beta) { return beta >= 0 && beta < 1; };
  for (const auto& group : param_groups_) {
    const auto& o = static_cast<const LambOptions&>(group.options());
    const auto [beta1, beta2] = o.betas();
    const bool sound = o.lr() >= 0 && o.eps() >= 0 && o.weight_decay() >= 0 && is_share(beta1) && is_share(beta2);
    if (!sound) throw Error(Code::invalid, "lamb: rate, weight decay and eps are at least 0, betas from 0 to below 1");
  }
}

Lamb::Lamb(std::vector<torch::Tensor> parameters, LambOptions defaults)
    : Lamb(std::vector<torch::optim::OptimizerParamGroup>{torch::optim::OptimizerParamGroup(std::move(parameters))},
           defaults) {}

torch::Tensor Lamb::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    for (torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) update(parameter, static_cast<const LambOptions&>(group.options()));
    }
  }
  return loss;
}

void Lamb::update(torch::Tensor& parameter, const LambOptions& options) {
  const torch::Tensor& gradient = parameter.grad();
  if (gradient.is_sparse()) throw Error(Code::invalid, "lamb does not take sparse gradients");
  auto& entry = state_[c10::guts::to_string(parameter.unsafeGetTensorImpl())];
  if (entry == nullptr) {
    entry = std::make_unique<LambParamState>();
    auto& fresh = static_cast<LambParamState&>(*entry);
    fresh.exp_avg(torch::zeros_like(parameter)).exp_avg_sq(torch::zeros_like(parameter));
  }
  auto& state = static_cast<LambParamState&>(*entry);
  state.step(state.step() + 1);
  const auto [beta1, beta2] = options.betas();
  const auto t = static_cast<double>(state.step());
  state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const torch::Tensor root = (state.exp_avg_sq().sqrt() / std::sqrt(1 - std::pow(beta2, t))).add_(options.eps());
  torch::Tensor direction = (state.exp_avg() / (1 - std::pow(beta1, t))).div_(root);
  double rate = options.lr();
  if (has_trust_ratio(parameter)) {
    direction.add_(parameter, options.weight_decay());
    rate *= LambOptions::trust_ratio(norm_of(parameter), norm_of(direction));
  }
  parameter.add_(direction, -rate);
}

void Lamb::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LambParamState, LambOptions>(archive, *this);
}

void Lamb::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<LambParamState, LambOptions>(archive, *this);
}

}  // namespace paceline
