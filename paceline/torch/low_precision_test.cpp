#include "paceline/torch/low_precision.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

const Form kDigits = {.kind = Kind::images, .shape = {1, 8, 8}, .classes = 10};

// The same weights in two precisions.
struct Pair {
  explicit Pair(const std::string& spec, Precision precision, const Form& form = kDigits) {
    torch::manual_seed(1);
    full = make_model(parse_model(spec), form);
    torch::manual_seed(1);
    lower = in_precision(make_model(parse_model(spec), form), precision);
  }
  Model full, lower;
};

double relative_error(const torch::Tensor& is, const torch::Tensor& should) {
  return ((is - should).norm() / should.norm()).item<double>();
}

TEST(LowPrecision, IsCloseToTheFullOneAndNotTheSame) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor input = torch::randn({32, 1, 8, 8});
  for (const Precision precision : {Precision::bf16, Precision::int8}) {
    const Pair pair("mlp:256,128", precision);
    const torch::Tensor out = pair.lower.forward(input);
    EXPECT_EQ(out.scalar_type(), torch::kFloat);
    EXPECT_EQ(out.sizes(), pair.full.forward(input).sizes());
    const double error = relative_error(out, pair.full.forward(input));
    EXPECT_LT(error, 0.05) << name(precision);
    EXPECT_GT(error, 1e-5) << name(precision);
  }
}

// The layer's own rounding, recomputed: weights to multiples of max/127.
TEST(LowPrecision, Int8RoundsWeightsToTheirOwnScale) {
  const torch::NoGradGuard no_grad;
  const Pair pair("softmax", Precision::int8);
  const torch::Tensor weight = pair.full.module->parameters()[0];
  const double scale = weight.abs().max().item<double>() / 127;
  const torch::Tensor rounded = (weight / scale).round() * scale;
  // Inputs of 0 and 1 lie on any scale of their own.
  const torch::Tensor input = torch::eye(64).reshape({64, 1, 8, 8});
  const torch::Tensor should = rounded.t() + pair.full.module->parameters()[1];
  EXPECT_LT((pair.lower.forward(input) - should).abs().max().item<double>(), scale / 2);
}

TEST(LowPrecision, Int8LeavesOtherModelsAndOtherLayersAlone) {
  const torch::NoGradGuard no_grad;
  const Form images = {.kind = Kind::images, .shape = {1, 12, 12}, .classes = 10};
  const torch::Tensor input = torch::randn({4, 1, 12, 12});
  torch::manual_seed(1);
  const Model alone = make_model(parse_model("lenet"), images);
  const torch::Tensor before = alone.forward(input);
  const Pair pair("lenet", Precision::int8, images);
  EXPECT_TRUE(torch::equal(alone.forward(input), before));
  EXPECT_LT(relative_error(pair.lower.forward(input), before), 0.1);
  EXPECT_TRUE(torch::equal(alone.forward(input), before)) << "after the other has predicted";
}

TEST(LowPrecision, TwoInt8ModelsLiveSideBySide) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor input = torch::randn({4, 1, 8, 8});
  const Pair first("mlp:32", Precision::int8);
  const torch::Tensor alone = first.lower.forward(input);
  {
    const Pair second("mlp:16", Precision::int8);
    EXPECT_LT(relative_error(second.lower.forward(input), second.full.forward(input)), 0.1);
    EXPECT_TRUE(torch::equal(first.lower.forward(input), alone));
  }
  EXPECT_TRUE(torch::equal(first.lower.forward(input), alone));
}

TEST(LowPrecision, AModelWithoutLinearLayersCannotBeQuantized) {
  torch::nn::Sequential net(torch::nn::ReLU{});
  const Model model = {.module = net.ptr(),
                       .forward = [net](const torch::Tensor& x) mutable { return net->forward(x); }};
  EXPECT_THROW(in_precision(model, Precision::int8), Error);
}

}  // namespace
}  // namespace paceline
