#include "paceline/torch/activation_checkpoint.hpp"

#include "paceline/torch/autograd_hook.hpp"
#include "paceline/torch/model_test_support.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

TEST(ActivationCheckpoint, GivesTheSameGradientsBitForBitSlow) {
  for (const std::string name : {"resnet18", "vgg16", "transformer:3,16,2"}) {
    const Form form = name[0] == 't' ? text_form(6, 9) : images(3, 32, 32, 5);
    const Model plain = seeded_model(name, form);
    const Model thrifty = seeded_model(name, form, {.checkpoint_activations = true});
    for (int step = 0; step < 2; ++step) {
      const torch::Tensor input = random_examples(form, 3);
      const torch::Tensor a = plain.forward(input);
      const torch::Tensor b = thrifty.forward(input);
      EXPECT_TRUE(torch::equal(a, b)) << name;
      a.square().mean().backward();
      b.square().mean().backward();
    }
    for (const auto& item : plain.module->named_parameters()) {
      const torch::Tensor& other = thrifty.module->named_parameters()[item.key()];
      EXPECT_TRUE(torch::equal(item.value().grad(), other.grad())) << name << ": " << item.key();
    }
    for (const auto& item : plain.module->named_buffers())  // running statistics have seen each batch once
      EXPECT_TRUE(torch::equal(item.value(), thrifty.module->named_buffers()[item.key()]))
          << name << ": " << item.key();
  }
}

TEST(ActivationCheckpoint, RepeatsTheRandomNumbersAndLeavesThoseToCome) {
  const torch::Tensor weight = torch::randn({6, 6}).requires_grad_();
  const auto segment = [weight](const torch::Tensor& x) { return torch::dropout(x.matmul(weight), 0.5, true); };
  const auto gradients = [&](bool kept) {
    torch::manual_seed(4);
    const torch::Tensor x = torch::randn({5, 6}).requires_grad_();
    weight.mutable_grad() = torch::Tensor();
    (kept ? segment(x) : checkpoint(segment, x)).square().sum().backward();
    return std::vector<torch::Tensor>{x.grad(), weight.grad().clone(), torch::rand({3})};
  };
  EXPECT_TRUE(same_bits(gradients(true), gradients(false)));
}

TEST(ActivationCheckpoint, RunsASegmentTwiceAndTellsTheSecondTime) {
  std::vector<bool> runs;
  const torch::Tensor weight = torch::ones({2}).requires_grad_();
  const auto segment = [&](const torch::Tensor& x) {
    runs.push_back(recomputing());
    return x * weight;
  };
  const torch::Tensor out = checkpoint(segment, torch::ones({2}));  // data: only the weight wants a gradient
  EXPECT_EQ(runs, (std::vector<bool>{false}));
  out.sum().backward();
  EXPECT_EQ(runs, (std::vector<bool>{false, true}));
  EXPECT_TRUE(torch::equal(weight.grad(), torch::ones({2})));
  const torch::NoGradGuard no_grad;
  checkpoint(segment, torch::ones({2}));
  EXPECT_EQ(runs.size(), 3U);
  EXPECT_FALSE(recomputing());
}

TEST(ActivationCheckpoint, ForgetsThatItRecomputesWhenASegmentFails) {
  bool fail = false;
  const torch::Tensor weight = torch::ones({2}).requires_grad_();
  const torch::Tensor out = checkpoint(
      [&](const torch::Tensor& x) {
        if (fail) throw std::runtime_error("no");
        return x * weight;
      },
      torch::ones({2}));
  fail = true;
  EXPECT_THROW(out.sum().backward(), std::runtime_error);
  EXPECT_FALSE(recomputing());
}

TEST(ActivationCheckpoint, FiresTheHooksOfEachParameterOnce) {
  const Form form = text_form(4, 5);
  const Model model = seeded_model("transformer:2,8,2", form, {.checkpoint_activations = true});
  std::map<std::string, int> fired;
  std::vector<std::unique_ptr<AutogradHook>> hooks;
  for (const auto& item : model.module->named_parameters())
    hooks.push_back(std::make_unique<AutogradHook>(item.value(), [&fired, name = item.key()] { ++fired[name]; }));
  model.forward(random_examples(form, 2)).sum().backward();
  EXPECT_EQ(fired.size(), hooks.size());
  for (const auto& [name, times] : fired) EXPECT_EQ(times, 1) << name;
}

TEST(ActivationCheckpoint, TrainsOnSeveralRanksAsWithout) {
  const Form form = text_form(4, 5);
  std::vector<std::vector<torch::Tensor>> results(2);
  for (const bool thrifty : {false, true}) {
    std::mutex mutex;
    run_shm_ranks(2, [&](Endpoint& endpoint) {
      Model model;
      torch::Tensor input;
      {
        const std::lock_guard lock(mutex);  // seeding is global
        model = seeded_model("transformer:2,8,2", form, {.checkpoint_activations = thrifty});
        torch::manual_seed(20 + static_cast<std::uint64_t>(endpoint.rank()));
        input = random_examples(form, 3);
      }
      torch::optim::SGD sgd(model.module->parameters(), 0.1);
      DataParallel parallel(endpoint, Group::world(2), *model.module, sgd, "", {});
      for (int step = 0; step < 3; ++step) {
        sgd.zero_grad();
        model.forward(input).square().mean().backward();
        parallel.step();
      }
      if (endpoint.rank() == 0) results[thrifty ? 1 : 0] = copies(model.module->parameters());
    });
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

}  // namespace
}  // namespace paceline
