// The built-in models of `paceline train`.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>

#include "paceline/torch/model_spec.hpp"

namespace paceline {

// A module with its way through it. Images go in as [batch, channels, height, width], rows as [batch, 1, 1, columns],
// text as the numbers of its characters, [batch, length]; out come [batch, outputs], or of text [batch, length,
// outputs].
struct Model {
  std::shared_ptr<torch::nn::Module> module;  // shared as torch shares modules
  std::function<torch::Tensor(const torch::Tensor& input)> forward;
};

//   softmax  one linear layer
//   mlp      linear layers of the given widths with ReLU between
//   lenet    LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: conv 6 and 16 of 5x5, 120, 84
//   cnn      conv 32 and 64 of 3x3, each with ReLU and 2x2 max pooling, then 256; 824,458 parameters for 1x28x28
// For data of this form. Weights come from torch's own generator, so torch::manual_seed decides them. Error{invalid} if
// the model cannot take such data.
Model make_model(const ModelSpec& spec, const Form& form);

}  // namespace paceline
