// Collective operations on torch tensors, beside those on bytes (collective/bytes.hpp), for a program's own needs:
// metrics, early stopping, samples of unequal size. All ranks call the same in the same order; see Communicator.
//
//   auto world = paceline::Communicator(job.endpoint(), job.group());
//   paceline::allreduce(world, loss, ReduceOp::average);
//   std::vector<torch::Tensor> all = paceline::allgather(world, predictions);    // first dimensions may differ
#pragma once

#include <torch/types.h>

#include <vector>

#include "paceline/collective/bytes.hpp"
#include "paceline/collective/communicator.hpp"

namespace paceline {

// In place. bool tensors: max is "any", min is "all".
void allreduce(Communicator& communicator, torch::Tensor& tensor, ReduceOp op = ReduceOp::sum,
               const CollectiveOptions& options = {});
// In place; type and shape must agree on all ranks.
void broadcast(Communicator& communicator, torch::Tensor& tensor, int root, const CollectiveOptions& options = {});
// By rank. Types and all dimensions but the first must agree.
std::vector<torch::Tensor> allgather(Communicator& communicator, const torch::Tensor& tensor,
                                     const CollectiveOptions& options = {});

}  // namespace paceline
