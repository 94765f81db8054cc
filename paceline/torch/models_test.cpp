#include "paceline/torch/models.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr Shape kMnist = {.channels = 1, .height = 28, .width = 28};

std::int64_t parameters_of(const std::string& model, const Shape& shape = kMnist, int classes = 10) {
  std::int64_t sum = 0;
  for (const torch::Tensor& parameter :
       make_model(parse_model(model), {Kind::images, shape, classes}).module->parameters())
    sum += parameter.numel();
  return sum;
}

std::string complaint(const std::string& model, const Shape& shape) {
  try {
    make_model(parse_model(model), {Kind::images, shape, 10});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(Models, HaveTheParametersTheyAreKnownFor) {
  EXPECT_EQ(parameters_of("softmax"), 7'850);
  EXPECT_EQ(parameters_of("mlp:2048x3"), 10'020'874);
  EXPECT_EQ(parameters_of("cnn"), 824'458);
  EXPECT_EQ(parameters_of("lenet"), 61'706);  // LeCun's with 120 fully connected
  EXPECT_EQ(parameters_of("softmax", {3, 8, 8}, 4), 3 * 64 * 4 + 4);
}

TEST(Models, AreThereForEveryFamily) {
  for (const std::string& family : model_families()) EXPECT_GT(parameters_of(family), 0) << family;
}

TEST(Models, GiveOneNumberPerClass) {
  const Shape shapes[] = {
      kMnist, {.channels = 3, .height = 32, .width = 32}, {.channels = 1, .height = 12, .width = 17}};
  for (const Shape& shape : shapes) {
    for (const std::string name : {"softmax", "mlp:16", "mlp:8,4", "lenet", "cnn"}) {
      const Model model = make_model(parse_model(name), {Kind::images, shape, 7});
      const torch::Tensor out = model.forward(torch::zeros({5, shape.channels, shape.height, shape.width}));
      EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{5, 7})) << name << " of " << to_string(shape);
    }
  }
}

TEST(Models, AreTheSameForTheSameSeed) {
  torch::manual_seed(5);
  const auto one = make_model(parse_model("mlp:16"), {Kind::images, kMnist, 10}).module;
  torch::manual_seed(5);
  const auto other = make_model(parse_model("mlp:16"), {Kind::images, kMnist, 10}).module;
  for (std::size_t i = 0; i < one->parameters().size(); ++i)
    EXPECT_TRUE(torch::equal(one->parameters()[i], other->parameters()[i]));
}

TEST(Models, TooSmallImagesAreRefused) {
  EXPECT_EQ(complaint("cnn", {1, 4, 4}), "");
  EXPECT_EQ(complaint("cnn", {1, 3, 28}), "cnn needs images of at least 4x4; these are 3x28");
  EXPECT_EQ(complaint("lenet", {1, 12, 12}), "");
  EXPECT_EQ(complaint("lenet", {1, 28, 11}), "lenet needs images of at least 12x12; these are 28x11");
  EXPECT_EQ(complaint("softmax", {1, 1, 1}), "");
}

}  // namespace
}  // namespace paceline
