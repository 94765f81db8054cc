// The built-in models: images in, one number per class out.
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include "paceline/data/dataset.hpp"
#include "paceline/torch/model_spec.hpp"

namespace paceline {

// Takes [batch, channels, height, width]. Throws Error{invalid} when the images are too small for the model's layers.
//   softmax  one linear layer
//   mlp      linear layers of the given widths with ReLU between
//   lenet    LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: conv 6 and 16 of 5x5, 120, 84
//   cnn      conv 32 and 64 of 3x3, each with ReLU and 2x2 max pooling, then 256; 824,458 parameters for 1x28x28
torch::nn::Sequential make_model(const ModelSpec& spec, const Shape& shape, int classes);

}  // namespace paceline
