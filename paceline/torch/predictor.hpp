// What each worker of `paceline predict` does: takes its share of the examples, predicts them, and tells with the
// others how good the model is and how quick, beside plain LibTorch.
#pragma once

#include <torch/nn/module.h>

#include <string>

#include "paceline/launch/join.hpp"
#include "paceline/torch/predict_config.hpp"

namespace paceline {

// Collective. Rank 0 prints and writes. Throws Error, among others if a lower precision takes longer than fp32 here.
void predict(Job& job, const PredictConfig& config);

// model.safetensors of the folder, or its model.pt, into the model. Error{invalid} naming the file if it is of another
// model.
void load_model(const std::string& folder, torch::nn::Module& model);

}  // namespace paceline
