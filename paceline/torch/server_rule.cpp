#include "paceline/torch/server_rule.hpp"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <optional>
#include <typeinfo>

#include "paceline/server/update_rule.hpp"

namespace paceline {
namespace {

using torch::optim::Optimizer;
using Rule = std::optional<UpdateRule>;

template <class Options>
const Options& options_of(const Optimizer& optimizer) {
  return static_cast<const Options&>(optimizer.param_groups()[0].options());
}

UpdateRule rule_of(RuleKind kind, double lr, double weight_decay) {
  UpdateRule rule;
  rule.kind = kind;
  rule.lr = lr;
  rule.weight_decay = weight_decay;
  return rule;
}

Rule sgd(const torch::optim::SGDOptions& o) {
  if (o.nesterov() || o.dampening() != 0) return std::nullopt;
  UpdateRule rule = rule_of(o.momentum() == 0 ? RuleKind::sgd : RuleKind::momentum, o.lr(), o.weight_decay());
  rule.momentum = o.momentum();
  return rule;
}

Rule adagrad(const torch::optim::AdagradOptions& o) {
  if (o.lr_decay() != 0 || o.initial_accumulator_value() != 0) return std::nullopt;
  UpdateRule rule = rule_of(RuleKind::adagrad, o.lr(), o.weight_decay());
  rule.epsilon = o.eps();
  return rule;
}

Rule rmsprop(const torch::optim::RMSpropOptions& o) {
  if (o.momentum() != 0 || o.centered()) return std::nullopt;
  UpdateRule rule = rule_of(RuleKind::rmsprop, o.lr(), o.weight_decay());
  rule.alpha = o.alpha();
  rule.epsilon = o.eps();
  return rule;
}

Rule adam(const torch::optim::AdamOptions& o) {
  if (o.amsgrad()) return std::nullopt;
  UpdateRule rule = rule_of(RuleKind::adam, o.lr(), o.weight_decay());
  rule.beta1 = std::get<0>(o.betas());
  rule.beta2 = std::get<1>(o.betas());
  rule.epsilon = o.eps();
  return rule;
}

Rule matching(const Optimizer& optimizer) {
  if (optimizer.param_groups().size() != 1) return std::nullopt;
  const std::type_info& type = typeid(optimizer);
  if (type == typeid(torch::optim::SGD)) return sgd(options_of<torch::optim::SGDOptions>(optimizer));
  if (type == typeid(torch::optim::Adagrad)) return adagrad(options_of<torch::optim::AdagradOptions>(optimizer));
  if (type == typeid(torch::optim::RMSprop)) return rmsprop(options_of<torch::optim::RMSpropOptions>(optimizer));
  if (type == typeid(torch::optim::Adam)) return adam(options_of<torch::optim::AdamOptions>(optimizer));
  return std::nullopt;
}

}  // namespace

std::string server_rule(const Optimizer& optimizer) {
  const Rule rule = matching(optimizer);
  return rule ? rule->text() : std::string();
}

}  // namespace paceline
