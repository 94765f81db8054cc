#include "paceline/torch/ghost_batch_norm.hpp"

#include "paceline/torch/model_test_support.hpp"

namespace paceline {
namespace {

using torch::nn::BatchNorm2d;

TEST(GhostBatchNorm, IsBatchNormWhereABatchIsOneGhostBatch) {
  for (const int ghost : {0, 6, 100}) {
    GhostBatchNorm2d mine(3, ghost);
    BatchNorm2d torchs(3);
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor input = torch::randn({6, 3, 4, 5}).requires_grad_();
      const torch::Tensor same = input.detach().clone().requires_grad_();
      const torch::Tensor a = mine->forward(input);
      const torch::Tensor b = torchs->forward(same);
      a.pow(3).sum().backward();
      b.pow(3).sum().backward();
      EXPECT_TRUE(torch::equal(a, b));
      EXPECT_TRUE(torch::equal(input.grad(), same.grad()));
    }
    EXPECT_TRUE(torch::equal(mine->weight.grad(), torchs->weight.grad()));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(mine->buffers()[i], torchs->buffers()[i]));
    mine->eval();
    torchs->eval();
    const torch::Tensor input = torch::randn({9, 3, 2, 2});
    EXPECT_TRUE(torch::equal(mine->forward(input), torchs->forward(input)));
  }
}

TEST(GhostBatchNorm, TreatsTheGhostBatchesOneAfterTheOther) {
  GhostBatchNorm2d mine(3, 4);
  BatchNorm2d torchs(3);
  const torch::Tensor input = torch::randn({10, 3, 2, 2});
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& part : input.split_with_sizes({4, 3, 3})) parts.push_back(torchs->forward(part));
  EXPECT_TRUE(torch::equal(mine->forward(input), torch::cat(parts)));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(mine->buffers()[i], torchs->buffers()[i]));
}

TEST(GhostBatchNorm, NormalisesASingleValueByTheRunningStatistics) {
  GhostBatchNorm2d norm(2, 1);
  for (int i = 0; i < 5; ++i) norm->forward(torch::randn({3, 2, 4, 4}) + 1);
  const torch::Tensor before = norm->running_mean.clone();
  const torch::Tensor single = torch::randn({1, 2, 1, 1});
  const torch::Tensor out = norm->forward(single);
  norm->eval();
  EXPECT_TRUE(torch::equal(out, norm->forward(single)));
  EXPECT_TRUE(torch::equal(before, norm->running_mean));
}

TEST(GhostBatchNorm, IsInTheDeepNetsIfTheyAreToldSo) {
  for (const std::string name : {"resnet18", "vgg16"}) {
    const Form form = images(3, 32, 32, 4);
    const Model plain = seeded_model(name, form);
    const Model ghost = seeded_model(name, form, {.ghost_batch = 2});
    const torch::NoGradGuard no_grad;
    const torch::Tensor input = random_examples(form, 4);
    const torch::Tensor out = ghost.forward(input);
    EXPECT_FALSE(torch::allclose(out, plain.forward(input))) << name;
    // Each ghost batch went through as if it were alone.
    EXPECT_TRUE(torch::allclose(out.narrow(0, 2, 2), plain.forward(input.narrow(0, 2, 2)), 1e-3, 1e-4)) << name;
  }
}

}  // namespace
}  // namespace paceline
