#include "paceline/torch/optimizers.hpp"

#include <torch/optim.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/torch/lamb.hpp"
#include "paceline/torch/lars.hpp"

namespace paceline {
namespace {

using Parameters = std::vector<torch::Tensor>;
using Made = std::unique_ptr<torch::optim::Optimizer>;

Made make_sgd(const OptimizerSpec& spec, Parameters parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(spec.rate()).weight_decay(spec.weight_decay));
}

Made make_momentum(const OptimizerSpec& spec, Parameters parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(spec.rate())
                                                                        .weight_decay(spec.weight_decay)
                                                                        .momentum(spec.setting("momentum"))
                                                                        .dampening(spec.setting("dampening")));
}

Made make_nesterov(const OptimizerSpec& spec, Parameters parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(spec.rate())
                                                                        .weight_decay(spec.weight_decay)
                                                                        .momentum(spec.setting("momentum"))
                                                                        .nesterov(true));
}

Made make_adagrad(const OptimizerSpec& spec, Parameters parameters) {
  return std::make_unique<torch::optim::Adagrad>(
      std::move(parameters), torch::optim::AdagradOptions(spec.rate())
                                 .weight_decay(spec.weight_decay)
                                 .lr_decay(spec.setting("lr_decay"))
                                 .initial_accumulator_value(spec.setting("initial_accumulator_value"))
                                 .eps(spec.setting("eps")));
}

Made make_rmsprop(const OptimizerSpec& spec, Parameters parameters) {
  return std::make_unique<torch::optim::RMSprop>(std::move(parameters), torch::optim::RMSpropOptions(spec.rate())
                                                                            .weight_decay(spec.weight_decay)
                                                                            .alpha(spec.setting("alpha"))
                                                                            .eps(spec.setting("eps"))
                                                                            .momentum(spec.setting("momentum"))
                                                                            .centered(spec.setting("centered") != 0));
}

// Adam, AdamW and Lamb have the same options.
template <class Optimizer, class Options>
Made make_adam(const OptimizerSpec& spec, Parameters parameters) {
  Options options(spec.rate());
  options.weight_decay(spec.weight_decay)
      .betas({spec.setting("beta1"), spec.setting("beta2")})
      .eps(spec.setting("eps"));
  return std::make_unique<Optimizer>(std::move(parameters), options);
}

Made make_lars(const OptimizerSpec& spec, Parameters parameters) {
  return std::make_unique<Lars>(std::move(parameters), LarsOptions(spec.rate())
                                                           .weight_decay(spec.weight_decay)
                                                           .momentum(spec.setting("momentum"))
                                                           .eta(spec.setting("eta"))
                                                           .eps(spec.setting("eps")));
}

struct OptimizerMaker {
  std::string_view name;
  Made (*make)(const OptimizerSpec& spec, Parameters parameters);
};

constexpr OptimizerMaker kOptimizerMakers[] = {
    {"sgd", make_sgd},
    {"momentum", make_momentum},
    {"nesterov", make_nesterov},
    {"adagrad", make_adagrad},
    {"rmsprop", make_rmsprop},
    {"adam", make_adam<torch::optim::Adam, torch::optim::AdamOptions>},
    {"adamw", make_adam<torch::optim::AdamW, torch::optim::AdamWOptions>},
    {"lars", make_lars},
    {"lamb", make_adam<Lamb, LambOptions>},
};

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerSpec& spec,
                                                        std::vector<torch::Tensor> parameters) {
  check_optimizer(spec);
  const auto maker = std::find_if(std::begin(kOptimizerMakers), std::end(kOptimizerMakers),
                                  [&](const OptimizerMaker& one) { return one.name == spec.name; });
  if (maker == std::end(kOptimizerMakers))
    throw Error(Code::invalid, "optimizer " + spec.name + " has a name but no maker");
  return maker->make(spec, std::move(parameters));
}

}  // namespace paceline
