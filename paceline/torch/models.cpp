#include "paceline/torch/models.hpp"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>
#include <string_view>

#include "paceline/torch/model_makers.hpp"

namespace paceline {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Flatten;
using torch::nn::Linear;
using torch::nn::MaxPool2d;
using torch::nn::ReLU;
using torch::nn::Sequential;

// Linear layers from `inputs` through the widths to the classes; ReLU after each but the last.
void add_linear(Sequential& net, std::int64_t inputs, const std::vector<int>& widths, int classes) {
  net->push_back(Flatten());
  for (const int width : widths) {
    net->push_back(Linear(inputs, width));
    net->push_back(ReLU());
    inputs = width;
  }
  net->push_back(Linear(inputs, classes));
}

void add_convolution(Sequential& net, int in, int out, int kernel, int padding) {
  net->push_back(Conv2d(Conv2dOptions(in, out, kernel).padding(padding)));
  net->push_back(ReLU());
  net->push_back(MaxPool2d(2));
}

Model make_linear(const ModelSpec& spec, const Form& form, const ModelOptions&) {
  Sequential net;
  add_linear(net, static_cast<std::int64_t>(form.shape.pixels()), spec.sizes, form.outputs());
  return model_of(net);
}

Model make_lenet(const ModelSpec&, const Form& form, const ModelOptions&) {
  const Shape& shape = form.shape;
  Sequential net;
  add_convolution(net, shape.channels, 6, 5, 2);  // LeNet-5 took 32x32; padding gives smaller images the same border
  add_convolution(net, 6, 16, 5, 0);
  const auto side = [](int n) { return (n / 2 - 4) / 2; };
  add_linear(net, std::int64_t{16} * side(shape.height) * side(shape.width), {120, 84}, form.outputs());
  return model_of(net);
}

Model make_cnn(const ModelSpec&, const Form& form, const ModelOptions&) {
  const Shape& shape = form.shape;
  Sequential net;
  add_convolution(net, shape.channels, 32, 3, 1);
  add_convolution(net, 32, 64, 3, 1);
  add_linear(net, std::int64_t{64} * (shape.height / 4) * (shape.width / 4), {256}, form.outputs());
  return model_of(net);
}

// Who makes the families of model_spec.cpp.
struct ModelMaker {
  std::string_view family;
  Model (*make)(const ModelSpec& spec, const Form& form, const ModelOptions& options);
};
constexpr ModelMaker kModelMakers[] = {
    {"softmax", make_linear},
    {"mlp", make_linear},
    {"lenet", make_lenet},
    {"cnn", make_cnn},
    {"resnet18", make_resnet18},
    {"vgg16", make_vgg16},
    {"transformer", make_transformer},
    {"lstm", make_lstm},
    {"wide-deep", make_wide_deep},
    {"script", make_script},
};

}  // namespace

Model make_model(const ModelSpec& spec, const Form& form, const ModelOptions& options) {
  require_fit(spec, form);
  require_fit(spec, options);
  const auto maker = std::find_if(std::begin(kModelMakers), std::end(kModelMakers),
                                  [&](const ModelMaker& known) { return known.family == spec.family; });
  TORCH_INTERNAL_ASSERT(maker != std::end(kModelMakers), "a model without a maker: ", spec.family);
  return maker->make(spec, form, options);
}

torch::Tensor example_of(const Form& form) {
  const Shape& shape = form.shape;
  if (form.kind == Kind::text) return torch::zeros({1, shape.width}, torch::kLong);
  if (form.kind == Kind::keyed) return torch::zeros({1, form.keys + shape.width}, torch::kLong);
  return torch::zeros({1, shape.channels, shape.height, shape.width});
}

}  // namespace paceline
