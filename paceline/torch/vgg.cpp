// VGG-16 (Simonyan & Zisserman 2015, configuration D) with batch norm after each convolution: five stages of 3x3
// convolutions that end in 2x2 max pooling, then linear layers. Layers are named and initialised as torchvision's
// vgg16_bn, so that its weights fit.
//
// For large images the classifier is the paper's: 7x7 averages, 4096, 4096, with dropout. For small ones, whose sides
// the five poolings leave nothing of, it is one linear layer on the 512 averages, as is usual for CIFAR.
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <numeric>

#include "paceline/torch/activation_checkpoint.hpp"
#include "paceline/torch/ghost_batch_norm.hpp"
#include "paceline/torch/model_makers.hpp"

namespace paceline {
namespace {

using torch::nn::Conv2d;
using torch::nn::Linear;
using torch::nn::ReLU;
using torch::nn::ReLUOptions;
using torch::nn::Sequential;

struct Stage {
  int convolutions;
  int channels;
};
constexpr Stage kStages[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};

Conv2d convolution(int in, int out) {
  Conv2d layer(torch::nn::Conv2dOptions(in, out, 3).padding(1));
  torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

Linear linear(std::int64_t in, std::int64_t out) {
  Linear layer(in, out);
  torch::nn::init::normal_(layer->weight, 0, 0.01);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

class VggImpl : public torch::nn::Module {
 public:
  VggImpl(const Form& form, const ModelOptions& options)
      : pooled_side_(is_small(form.shape) ? 1 : 7), checkpoint_(options.checkpoint_activations) {
    int in = form.shape.channels;
    for (const Stage& stage : kStages) {
      for (int i = 0; i < stage.convolutions; ++i) {
        features_->push_back(convolution(in, stage.channels));
        features_->push_back(GhostBatchNorm2d(stage.channels, options.ghost_batch));
        features_->push_back(ReLU(ReLUOptions(true)));
        in = stage.channels;
      }
      features_->push_back(torch::nn::MaxPool2d(2));
    }
    register_module("features", features_);
    if (pooled_side_ > 1) add_hidden();
    classifier_->push_back(linear(pooled_side_ > 1 ? 4096 : in, form.outputs()));
    register_module("classifier", classifier_);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = input;
    std::ptrdiff_t first = 0;
    for (const Stage& stage : kStages) {
      const std::ptrdiff_t last = first + 3 * stage.convolutions + 1;  // each with its norm and ReLU; pooling
      const auto run = [features = features_.ptr(), first, last](const torch::Tensor& in) {
        return std::accumulate(features->begin() + first, features->begin() + last, in,
                               [](const torch::Tensor& at, torch::nn::AnyModule& layer) { return layer.forward(at); });
      };
      x = checkpoint_ ? checkpoint(run, x) : run(x);
      first = last;
    }
    return classifier_->forward(torch::adaptive_avg_pool2d(x, {pooled_side_, pooled_side_}).flatten(1));
  }

 private:
  void add_hidden() {
    std::int64_t in = 512 * pooled_side_ * pooled_side_;
    for (int i = 0; i < 2; ++i) {
      classifier_->push_back(linear(in, 4096));
      classifier_->push_back(ReLU(ReLUOptions(true)));
      classifier_->push_back(torch::nn::Dropout());
      in = 4096;
    }
  }

  std::int64_t pooled_side_;
  bool checkpoint_;
  Sequential features_;
  Sequential classifier_;
};
TORCH_MODULE(Vgg);

}  // namespace

Model make_vgg16(const ModelSpec&, const Form& form, const ModelOptions& options) {
  return model_of(Vgg(form, options));
}

}  // namespace paceline
