#include "paceline/torch/optimizers.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "paceline/core/error.hpp"
#include "paceline/torch/fused_rules.hpp"
#include "paceline/torch/lamb.hpp"
#include "paceline/torch/lars.hpp"
#include "paceline/torch/replicas.hpp"

namespace paceline {
namespace {

std::vector<torch::Tensor> some_parameters() {
  torch::manual_seed(3);
  return {torch::randn({5, 3}).requires_grad_(), torch::randn({5}).requires_grad_()};
}

// y = x w' + b, to be found again.
double loss_after(torch::optim::Optimizer& optimizer, std::vector<torch::Tensor>& p, int first, int last) {
  double loss = 0;
  for (int step = first; step < last; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(100 + step));
    const torch::Tensor x = torch::randn({32, 3});
    const torch::Tensor error = torch::matmul(x, p[0].t()) + p[1] - x.sum(1, true) - 1;
    optimizer.zero_grad();
    const torch::Tensor mean = error.pow(2).mean();
    mean.backward();
    optimizer.step();
    loss = mean.item<double>();
  }
  return loss;
}

TEST(Optimizers, EveryNameHasAMakerAndAFusedForm) {
  for (const std::string& name : known_optimizers()) {
    const auto optimizer = make_optimizer({.name = name}, some_parameters());
    EXPECT_NE(rule_for(*optimizer), nullptr) << name;
    EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), default_rate(name)) << name;
    EXPECT_EQ(make_optimizer({.name = name, .lr = 0.25}, some_parameters())->defaults().get_lr(), 0.25) << name;
  }
  EXPECT_THROW(make_optimizer({.name = "lion"}, some_parameters()), Error);
}

TEST(Optimizers, SettingsArrive) {
  OptimizerSpec spec = parse_optimizer("rmsprop:alpha=0.5,eps=0.25,momentum=0.75,centered=1");
  spec.weight_decay = 0.125;
  const auto rmsprop = make_optimizer(spec, some_parameters());
  const auto& options = static_cast<const torch::optim::RMSpropOptions&>(rmsprop->defaults());
  EXPECT_EQ(options.alpha(), 0.5);
  EXPECT_EQ(options.eps(), 0.25);
  EXPECT_EQ(options.momentum(), 0.75);
  EXPECT_TRUE(options.centered());
  EXPECT_EQ(options.weight_decay(), 0.125);
  const auto lars = make_optimizer(parse_optimizer("lars:eta=0.5,momentum=0"), some_parameters());
  EXPECT_EQ(static_cast<const LarsOptions&>(lars->defaults()).eta(), 0.5);
  EXPECT_EQ(static_cast<const LarsOptions&>(lars->defaults()).momentum(), 0);
  const auto lamb = make_optimizer(parse_optimizer("lamb:beta2=0.5"), some_parameters());
  EXPECT_EQ(static_cast<const LambOptions&>(lamb->defaults()).betas(), std::make_tuple(0.9, 0.5));
  const auto nesterov = make_optimizer(parse_optimizer("nesterov"), some_parameters());
  EXPECT_TRUE(static_cast<const torch::optim::SGDOptions&>(nesterov->defaults()).nesterov());
}

TEST(Optimizers, EveryOneLearns) {
  for (const std::string& name : known_optimizers()) {
    auto parameters = some_parameters();
    const auto optimizer = make_optimizer({.name = name}, parameters);
    const double before = loss_after(*optimizer, parameters, 0, 1);
    EXPECT_LT(loss_after(*optimizer, parameters, 1, 400), 0.8 * before) << name;
  }
}

std::vector<torch::Tensor> fresh_copies(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> result;
  for (const torch::Tensor& tensor : tensors) result.push_back(tensor.detach().clone().requires_grad_());
  return result;
}

// By torch::save and torch::load, and as a checkpoint does it, which carries the options as well.
TEST(Optimizers, EveryOneGoesOnFromItsSavedState) {
  for (const std::string& name : known_optimizers()) {
    const OptimizerSpec spec{.name = name, .weight_decay = 0.01};
    auto straight = some_parameters();
    const auto whole = make_optimizer(spec, straight);
    loss_after(*whole, straight, 0, 5);
    std::stringstream file;
    torch::save(*whole, file);
    const std::string bytes = optimizer_bytes(*whole);
    auto by_torch = fresh_copies(straight), by_checkpoint = fresh_copies(straight);
    const auto second = make_optimizer(spec, by_torch);
    torch::load(*second, file);
    const auto third = make_optimizer({.name = name, .lr = 0.9}, by_checkpoint);
    load_optimizer(*third, bytes);
    loss_after(*whole, straight, 5, 8);
    loss_after(*second, by_torch, 5, 8);
    loss_after(*third, by_checkpoint, 5, 8);
    for (std::size_t i = 0; i < straight.size(); ++i) {
      EXPECT_TRUE(torch::equal(by_torch[i], straight[i])) << name;
      EXPECT_TRUE(torch::equal(by_checkpoint[i], straight[i])) << name;
    }
  }
}

}  // namespace
}  // namespace paceline
