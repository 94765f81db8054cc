#include "paceline/torch/lars.hpp"

#include <c10/util/string_utils.h>
#include <torch/optim/serialize.h>
#include <torch/utils.h>

#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/torch/trust_ratio.hpp"

namespace paceline {

void LarsOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eta);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
}

void LarsOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eta);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
}

void LarsParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum_buffer);
}

void LarsParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, momentum_buffer);
}

double LarsOptions::trust_ratio(double parameter_norm, double gradient_norm) const {
  if (parameter_norm == 0 || gradient_norm == 0) return 1;
  return eta() * parameter_norm / (gradient_norm + weight_decay() * parameter_norm + eps());
}

Lars::Lars(std::vector<torch::optim::OptimizerParamGroup> groups, LarsOptions defaults)
    : Optimizer(std::move(groups), std::make_unique<LarsOptions>(defaults)) {
  for (const auto& group : param_groups_) {
    const auto& o = static_cast<const LarsOptions&>(group.options());
    const bool sound = o.lr() >= 0 && o.momentum() >= 0 && o.weight_decay() >= 0 && o.eta() > 0 && o.eps() >= 0;
    if (!sound) throw Error(Code::invalid, "lars: rate, momentum, weight decay and eps are at least 0, eta is above");
  }
}

Lars::Lars(std::vector<torch::Tensor> parameters, LarsOptions defaults)
    : Lars(std::vector<torch::optim::OptimizerParamGroup>{torch::optim::OptimizerParamGroup(std::move(parameters))},
           defaults) {}

torch::Tensor Lars::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    for (torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) update(parameter, static_cast<const LarsOptions&>(group.options()));
    }
  }
  return loss;
}

void Lars::update(torch::Tensor& parameter, const LarsOptions& options) {
  torch::Tensor direction = parameter.grad();
  if (direction.is_sparse()) throw Error(Code::invalid, "lars does not take sparse gradients");
  double rate = options.lr();
  if (has_trust_ratio(parameter)) {
    rate *= options.trust_ratio(norm_of(parameter), norm_of(direction));
    direction = direction.add(parameter, options.weight_decay());
  }
  if (options.momentum() == 0) {
    parameter.add_(direction, -rate);
    return;
  }
  auto& entry = state_[c10::guts::to_string(parameter.unsafeGetTensorImpl())];
  if (entry == nullptr) entry = std::make_unique<LarsParamState>();
  auto& state = static_cast<LarsParamState&>(*entry);
  if (!state.momentum_buffer().defined()) state.momentum_buffer(torch::zeros_like(parameter));
  state.momentum_buffer().mul_(options.momentum()).add_(direction, rate);
  parameter.sub_(state.momentum_buffer());
}

void Lars::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LarsParamState, LarsOptions>(archive, *this);
}

void Lars::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<LarsParamState, LarsOptions>(archive, *this);
}

}  // namespace paceline
