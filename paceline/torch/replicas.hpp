// What keeps the ranks' copies of a model one model: compared before the start, made equal, and watched afterwards.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"

namespace paceline {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

// The model's parameters, each once: a tensor that is listed under two names (tied weights) has its first name.
std::vector<NamedTensor> distinct_parameters(const torch::nn::Module& model);
std::vector<NamedTensor> distinct_buffers(const torch::nn::Module& model);

// Throws Error{mismatch} on every rank if the models are not of one form, naming the first parameter or buffer that
// differs and the rank that has it so.
void compare_models(Communicator& communicator, const torch::nn::Module& model,
                    const torch::optim::Optimizer& optimizer);

// Options and state of rank 0's optimizer on all ranks; the optimizers are of one class.
void broadcast_optimizer(Communicator& communicator, torch::optim::Optimizer& optimizer);
std::string optimizer_bytes(const torch::optim::Optimizer& optimizer);
void load_optimizer(torch::optim::Optimizer& optimizer, const std::string& bytes);

// Throws Error{unsound} on every rank if some rank's tensors are not bit for bit those of the others, naming the rank
// and the first tensor. With more than two ranks the majority is right, with two it is rank 0.
void compare_contents(Communicator& communicator, const std::vector<NamedTensor>& tensors, std::int64_t step);

}  // namespace paceline
