// A model as files: model.pt, model.safetensors, and the arrays of a checkpoint.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "paceline/record/checkpoint_files.hpp"

namespace paceline {

// model.pt, which torch::load(model) reads, and model.safetensors, into the folder.
void save_model(const std::string& folder, const torch::nn::Module& model, const std::string& description);

// What save needs of a model in training. Owns what its arrays point to, but not the model's own memory.
class TrainingArrays {
 public:
  TrainingArrays(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer,
                 const std::vector<std::string>& generators);
  const std::vector<NamedArray>& arrays() const { return arrays_; }

 private:
  std::vector<torch::Tensor> tensors_;
  std::vector<std::string> texts_;
  std::vector<NamedArray> arrays_;
};

// Puts a checkpoint's contents back. Error{invalid} naming the file if it is of another model.
void load_training(const Checkpoint& checkpoint, torch::nn::Module& model, torch::optim::Optimizer& optimizer);
// The random generators' states by rank, as they were saved.
std::vector<std::string> saved_generators(const Checkpoint& checkpoint);

std::string generator_state();
void set_generator_state(const std::string& bytes);

}  // namespace paceline
