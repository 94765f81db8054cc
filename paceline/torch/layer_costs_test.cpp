#include "paceline/torch/layer_costs.hpp"

#include "paceline/torch/model_test_support.hpp"

namespace paceline {
namespace {

struct Sum {
  double flops = 0;
  std::int64_t parameters = 0;
};

Sum sum_of(const std::vector<LayerCost>& costs) {
  Sum sum;
  for (const LayerCost& cost : costs) {
    sum.flops += cost.flops;
    sum.parameters += cost.parameters;
  }
  return sum;
}

std::vector<LayerCost> costs_of(const std::string& spec, const Form& form) {
  const Model model = seeded_model(spec, form);
  const std::vector<LayerCost> costs = layer_costs(model, form);
  EXPECT_EQ(sum_of(costs).parameters, count_parameters(model)) << spec;
  EXPECT_TRUE(model.module->is_training());
  return costs;
}

void expect_costs(const std::vector<LayerCost>& costs, const std::vector<LayerCost>& wanted) {
  ASSERT_EQ(costs.size(), wanted.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    EXPECT_EQ(costs[i].name, wanted[i].name);
    EXPECT_EQ(costs[i].parameters, wanted[i].parameters) << wanted[i].name;
    EXPECT_EQ(costs[i].flops, wanted[i].flops) << wanted[i].name;
  }
}

TEST(LayerCosts, FollowFromTheSizesOfAConvolutionalNet) {
  expect_costs(costs_of("cnn", images(1, 28, 28)), {{"0", 320, 2.0 * 28 * 28 * 32 * 9},
                                                    {"3", 18'496, 2.0 * 14 * 14 * 64 * 32 * 9},
                                                    {"7", 803'072, 2.0 * 3136 * 256},
                                                    {"9", 2'570, 2.0 * 256 * 10}});
}

TEST(LayerCosts, OfATransformerHaveItsAttentionInThem) {
  const double t = 6, w = 8;
  expect_costs(costs_of("transformer:1,8,2", text_form(6, 5)), {{"wte", 40, 0},
                                                                {"wpe", 48, 0},
                                                                {"h.0.ln_1", 16, 0},
                                                                {"h.0.attn.c_attn", 216, 2 * t * w * 3 * w},
                                                                {"h.0.attn", 0, 2 * 2 * t * t * w},
                                                                {"h.0.attn.c_proj", 72, 2 * t * w * w},
                                                                {"h.0.ln_2", 16, 0},
                                                                {"h.0.mlp.c_fc", 288, 2 * t * w * 4 * w},
                                                                {"h.0.mlp.c_proj", 264, 2 * t * w * 4 * w},
                                                                {"ln_f", 16, 0},
                                                                {"lm_head", 40, 2 * t * w * 5}});
}

TEST(LayerCosts, OfAnLstmHaveAllItsSteps) {
  const double t = 7, w = 4;
  expect_costs(
      costs_of("lstm:2,4", text_form(7, 5)),
      {{"embedding", 20, 0}, {"lstm", 2 * (4 * 4 * 8 + 32), t * 2 * 2 * 4 * w * 2 * w}, {"head", 25, 2 * t * w * 5}});
}

// torchvision gives 1.814 GMACs for resnet18 and 15.47 for vgg16_bn; a multiplication and an addition are two here.
TEST(LayerCosts, OfResnet18AreThePublishedOnes) {
  const std::vector<LayerCost> costs = costs_of("resnet18", images(3, 224, 224, 1000));
  EXPECT_NEAR(sum_of(costs).flops / 2, 1.814e9, 0.002e9);
  EXPECT_EQ(costs.front().name, "conv1");
  EXPECT_EQ(costs.back().name, "fc");
}

TEST(LayerCosts, OfVgg16AreThePublishedOnesSlow) {
  EXPECT_NEAR(sum_of(costs_of("vgg16", images(3, 224, 224, 1000))).flops / 2, 15.47e9, 0.01e9);
}

class LayerCostsOfScripts : public ModelFolder {};

TEST_F(LayerCostsOfScripts, AreSeenThroughTheScript) {
  small_script().save(path("script.pt"));
  expect_costs(costs_of("script:" + path("script.pt"), images(1, 4, 4, 3)),
               {{"hidden", 128, 2.0 * 16 * 8}, {"", 27, 2.0 * 8 * 3}});
}

}  // namespace
}  // namespace paceline
