// Parameters whose gradients are sparse tensors: embeddings with sparse(true). They stay outside the arena, because a
// dense .grad would turn their gradients dense, and travel as indices and values.
#pragma once

#include <torch/nn/module.h>

#include <set>

#include "paceline/collective/communicator.hpp"

namespace paceline {

// TensorImpls of the parameters of Embedding and EmbeddingBag modules that ask for sparse gradients.
std::set<const void*> sparse_parameters(const torch::nn::Module& model);

// parameter's .grad = the sum over all ranks, divided by `divisor`, coalesced; undefined if it is undefined on all.
void average_sparse_gradient(Communicator& communicator, torch::Tensor parameter, const std::string& name, int divisor);

}  // namespace paceline
