// Models that predict with fewer bits: bf16, and int8 of the linear layers.
#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "paceline/torch/models.hpp"
#include "paceline/torch/predict_config.hpp"

namespace paceline {

// Takes the model over and returns how to go through it in that precision; outputs are f32 again.
//
//   bf16  parameters, buffers and inputs are rounded to bf16, which has f32's exponents and 8 bits of precision
//   int8  dynamic quantization: the weights of torch::nn::Linear become int8 with one scale for each layer; what goes
//         into such a layer is quantized as it comes, by its own range. All other layers stay f32.
//
// Only for prediction, on one thread at a time. Error{invalid} where LibTorch has no kernels for int8, or the model no
// linear layer.
Model in_precision(Model model, Precision precision);

}  // namespace paceline
