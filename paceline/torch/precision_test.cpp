#include "paceline/torch/precision.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline {
namespace {

TEST(Precision, ProductsAreTakenInBf16AndGradientsStayF32) {
  torch::nn::Linear layer(16, 8);
  torch::Tensor out;
  {
    const ComputeIn lower(Precision::bf16);
    out = layer->forward(torch::randn({4, 16}));
  }
  EXPECT_EQ(out.scalar_type(), torch::kBFloat16);
  out.to(torch::kFloat).sum().backward();
  EXPECT_EQ(layer->weight.grad().scalar_type(), torch::kFloat);
  EXPECT_EQ(layer->forward(torch::randn({4, 16})).scalar_type(), torch::kFloat) << "nothing is left switched on";
}

TEST(Precision, AnUpdatedParameterIsCastAnew) {
  const torch::NoGradGuard no_grad;
  torch::nn::Linear layer(1, 1);
  const auto product = [&] {
    const ComputeIn lower(Precision::bf16);
    return layer->forward(torch::ones({1, 1})).item<float>();
  };
  layer->bias.zero_();
  layer->weight.fill_(1);
  EXPECT_EQ(product(), 1);
  layer->weight.fill_(2);
  EXPECT_EQ(product(), 2);
}

TEST(Precision, TheRatioIsThatOfTheTimes) {
  int calls = 0;
  const double ratio = bf16_over_fp32([&](Precision) { ++calls; });
  EXPECT_EQ(calls, 8);
  EXPECT_GT(ratio, 0);
}

}  // namespace
}  // namespace paceline
