// Rules of the servers beside LibTorch's optimizers: the same gradients must lead to the same parameters.
#include "paceline/server/update_rule.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

namespace paceline {
namespace {

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using Parameters = std::vector<torch::Tensor>;

struct Pair {
  const char* rule;
  std::function<Optimizer(Parameters)> make;
};

const Pair kPairs[] = {
    {"sgd:0.1", [](Parameters p) { return std::make_unique<torch::optim::SGD>(p, 0.1); }},
    {"sgd:0.1,weight_decay=0.01",
     [](Parameters p) {
       return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.1).weight_decay(0.01));
     }},
    {"momentum:0.1,momentum=0.8",
     [](Parameters p) { return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.1).momentum(0.8)); }},
    {"adagrad:0.05", [](Parameters p) { return std::make_unique<torch::optim::Adagrad>(p, 0.05); }},
    {"rmsprop:0.01,alpha=0.9",
     [](Parameters p) {
       return std::make_unique<torch::optim::RMSprop>(p, torch::optim::RMSpropOptions(0.01).alpha(0.9));
     }},
    {"adam:0.01,beta2=0.99",
     [](Parameters p) {
       return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01).betas({0.9, 0.99}));
     }},
};

TEST(UpdateRuleBesideTorch, TwentyStepsLeadToTheSameParameters) {
  constexpr std::int64_t kCount = 1003;
  for (const Pair& pair : kPairs) {
    torch::manual_seed(3);
    torch::Tensor parameter = torch::randn({kCount}).requires_grad_();
    const Optimizer optimizer = pair.make({parameter});
    const UpdateRule rule = parse_rule(pair.rule);
    torch::Tensor values = parameter.detach().clone();
    std::vector<float> state(state_floats(rule.kind) * kCount);
    for (std::uint64_t step = 1; step <= 20; ++step) {
      const torch::Tensor gradient = torch::randn({kCount});
      parameter.mutable_grad() = gradient.clone();
      optimizer->step();
      apply(rule, {.values = values.data_ptr<float>(),
                   .state = state.data(),
                   .gradient = gradient.data_ptr<float>(),
                   .count = kCount,
                   .state_spacing = kCount,
                   .step = step});
    }
    EXPECT_TRUE(torch::allclose(values, parameter.detach(), 1e-5, 1e-6)) << pair.rule;
  }
}

}  // namespace
}  // namespace paceline
