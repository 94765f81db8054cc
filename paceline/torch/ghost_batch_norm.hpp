// Batch norm (Ioffe & Szegedy 2015) that can look at parts of a batch, ghost batches, one at a time (Hoffer, Hubara &
// Soudry 2017): a large batch then generalises as one of the ghost batches' size does.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace paceline {

// Parameters, buffers and names of torch's BatchNorm2d, and its numbers, bit for bit, where a batch is one ghost batch.
// Differs in training: a larger batch is divided as evenly as it goes into ghost batches of at most so many examples,
// and the running statistics take in one after the other; a channel with a single value, which has no variance, is
// normalised by the running statistics instead of being refused; a recomputed segment (activation_checkpoint.hpp)
// counts once.
class GhostBatchNorm2dImpl : public torch::nn::Module {
 public:
  explicit GhostBatchNorm2dImpl(int channels, int ghost_batch = 0);  // 0: a batch is one ghost batch
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;
  torch::Tensor bias;
  torch::Tensor running_mean;
  torch::Tensor running_var;
  torch::Tensor num_batches_tracked;

 private:
  torch::Tensor normalise(const torch::Tensor& input);

  const int ghost_batch_;
};
TORCH_MODULE(GhostBatchNorm2d);

}  // namespace paceline
