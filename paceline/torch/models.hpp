// The built-in models of `paceline train`.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>

#include "paceline/torch/model_spec.hpp"

namespace paceline {

class ModelTables;

// A module with its way through it. Images go in as [batch, channels, height, width], rows as [batch, 1, 1, columns],
// text as the numbers of its characters, [batch, length], keyed rows as int64, [batch, keys + columns]: the keys, then
// each number as the bits of a double. Out come [batch, outputs], or of text [batch, length, outputs].
struct Model {
  std::shared_ptr<torch::nn::Module> module;  // shared as torch shares modules
  std::function<torch::Tensor(const torch::Tensor& input)> forward;
  std::shared_ptr<ModelTables> tables = {};  // shared with `forward`; rows that live on servers, none of most models
};

//   softmax      one linear layer
//   mlp          linear layers of the given widths with ReLU between
//   lenet        LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: conv 6 and 16 of 5x5, 120, 84
//   cnn          conv 32 and 64 of 3x3, each with ReLU and 2x2 max pooling, then 256; 824,458 parameters for 1x28x28
//   resnet18     ResNet-18 (He et al. 2016); 11,173,962 parameters for 3x32x32 in 10 classes
//   vgg16        VGG-16 (Simonyan & Zisserman 2015) with batch norm; 14,728,266 parameters for 3x32x32 in 10 classes
//   transformer  a GPT-2-like decoder (Radford et al. 2019) over characters; 3,225,600 parameters for windows of 128 of
//                65 characters
//   lstm         LSTM layers (Hochreiter & Schmidhuber 1997) over an embedding; 1,086,017 for 65 characters
//   wide-deep    wide & deep (Cheng et al. 2016) over keyed rows, which live in tables of servers; see wide_deep.cpp
//   script       a user's TorchScript module; see script_model.hpp
// For data of this form. Weights come from torch's own generator, so torch::manual_seed decides them; a script brings
// its own. Error{invalid} if the model cannot take such data or has nothing to apply an option to.
Model make_model(const ModelSpec& spec, const Form& form, const ModelOptions& options = {});

// One example of zeros, as a Model takes it, to try a model out.
torch::Tensor example_of(const Form& form);

}  // namespace paceline
