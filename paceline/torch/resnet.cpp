// ResNet-18 (He et al. 2016): a stem, four stages of two blocks each with 64 to 512 channels, global average pooling, a
// linear layer. Layers are named as torchvision names them, so that its weights fit.
//
// The stem for large images is the paper's, a 7x7 convolution and max pooling that reduce the sides to a quarter. For
// small ones it is a 3x3 convolution that keeps them, as in the paper's own nets for CIFAR.
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "paceline/torch/activation_checkpoint.hpp"
#include "paceline/torch/ghost_batch_norm.hpp"
#include "paceline/torch/model_makers.hpp"

namespace paceline {
namespace {

using torch::nn::Conv2d;
using torch::nn::Linear;
using torch::nn::Sequential;

Conv2d convolution(int in, int out, int kernel, int stride) {
  Conv2d layer(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  return layer;
}

// Two 3x3 convolutions beside an identity; where sides or channels change, a 1x1 convolution stands for the identity.
class BasicBlockImpl : public torch::nn::Module {
 public:
  BasicBlockImpl(int in, int out, int stride, int ghost)
      : conv1_(register_module("conv1", convolution(in, out, 3, stride))),
        bn1_(register_module("bn1", GhostBatchNorm2d(out, ghost))),
        conv2_(register_module("conv2", convolution(out, out, 3, 1))),
        bn2_(register_module("bn2", GhostBatchNorm2d(out, ghost))) {
    if (stride == 1 && in == out) return;
    downsample_ =
        register_module("downsample", Sequential(convolution(in, out, 1, stride), GhostBatchNorm2d(out, ghost)));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = bn1_->forward(conv1_->forward(input)).relu_();
    x = bn2_->forward(conv2_->forward(x));
    x += downsample_.is_empty() ? input : downsample_->forward(input);
    return x.relu_();
  }

 private:
  Conv2d conv1_;
  GhostBatchNorm2d bn1_;
  Conv2d conv2_;
  GhostBatchNorm2d bn2_;
  Sequential downsample_ = nullptr;
};
TORCH_MODULE(BasicBlock);

class ResNetImpl : public torch::nn::Module {
 public:
  ResNetImpl(const Form& form, const ModelOptions& options)
      : large_(!is_small(form.shape)),
        checkpoint_(options.checkpoint_activations),
        conv1_(register_module("conv1", convolution(form.shape.channels, 64, large_ ? 7 : 3, large_ ? 2 : 1))),
        bn1_(register_module("bn1", GhostBatchNorm2d(64, options.ghost_batch))) {
    int in = 64;
    for (int stage = 0; stage < 4; ++stage) {
      const int out = 64 << stage;
      Sequential blocks(BasicBlock(in, out, stage == 0 ? 1 : 2, options.ghost_batch),
                        BasicBlock(out, out, 1, options.ghost_batch));
      stages_.push_back(register_module("layer" + std::to_string(stage + 1), blocks));
      in = out;
    }
    fc_ = register_module("fc", Linear(512, form.outputs()));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = bn1_->forward(conv1_->forward(input)).relu_();
    if (large_) x = torch::max_pool2d(x, 3, 2, 1);
    for (Sequential& stage : stages_) {
      const auto run = [net = stage.ptr()](const torch::Tensor& in) { return net->forward(in); };
      x = checkpoint_ ? checkpoint(run, x) : run(x);
    }
    return fc_->forward(x.mean({2, 3}));
  }

 private:
  bool large_;
  bool checkpoint_;
  Conv2d conv1_;
  GhostBatchNorm2d bn1_;
  std::vector<Sequential> stages_;
  Linear fc_ = nullptr;
};
TORCH_MODULE(ResNet);

}  // namespace

Model make_resnet18(const ModelSpec&, const Form& form, const ModelOptions& options) {
  return model_of(ResNet(form, options));
}

}  // namespace paceline
