// SyncBatchNorm1d, SyncBatchNorm2d: batch normalisation (Ioffe & Szegedy 2015) with the statistics of all ranks'
// batches together, as if one rank had the whole batch. In C++ a layer cannot be exchanged in a model that is built, so
// they are written in place of BatchNorm1d and BatchNorm2d, and do what these do until a Communicator is given to them:
//
//   conv->push_back(paceline::SyncBatchNorm2d(64));          // options, parameters and buffers are BatchNorm2d's
//   …
//   paceline::DataParallel parallel(job, *net, sgd);
//   paceline::sync_batch_norm(*net, parallel.communicator());
//
// Names are BatchNorm's, so that models saved with the one can be loaded with the other. A Communicator of some of the
// ranks gives statistics over these; it outlives the layers, or is taken from them by sync_batch_norm(*net, nullptr).
//
// While training each forward is one allreduce of 2 x features + 1 doubles and each backward one of 2 x features. So
// all ranks of the Communicator run the same layers in the same order, forward and backward, on batches of any size,
// also of no examples; they cannot run out of batches one by one (DataParallel::join). A backward through a part of the
// ranks' graphs waits for the others. Between hosts this works inside DataParallel's backward: a Communicator's calls
// take the Endpoint back from the thread that moves gradients. Gradients of gradients are not there.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include "paceline/collective/communicator.hpp"

namespace paceline {

template <std::size_t Dimensions, class Derived>
class SyncBatchNormImplBase : public torch::nn::NormImplBase<Dimensions, Derived, torch::nn::BatchNormOptions> {
 public:
  using torch::nn::NormImplBase<Dimensions, Derived, torch::nn::BatchNormOptions>::NormImplBase;

  // Throws Error{invalid} if all ranks together have less than two values per feature.
  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;
  // nullptr: this rank's batch alone.
  void synchronise(Communicator* communicator) { communicator_ = communicator; }

 private:
  torch::Tensor normalise_over_ranks(const torch::Tensor& input);
  double count_batch();

  Communicator* communicator_ = nullptr;
};

// Inputs of the shape [batch, features] or [batch, features, length].
class SyncBatchNorm1dImpl : public SyncBatchNormImplBase<1, SyncBatchNorm1dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
  explicit SyncBatchNorm1dImpl(std::int64_t features) : SyncBatchNormImplBase(torch::nn::BatchNormOptions(features)) {}

 protected:
  void _check_input_dim(const torch::Tensor& input) override;
};
TORCH_MODULE(SyncBatchNorm1d);

// Inputs of the shape [batch, features, height, width].
class SyncBatchNorm2dImpl : public SyncBatchNormImplBase<2, SyncBatchNorm2dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
  explicit SyncBatchNorm2dImpl(std::int64_t features) : SyncBatchNormImplBase(torch::nn::BatchNormOptions(features)) {}

 protected:
  void _check_input_dim(const torch::Tensor& input) override;
};
TORCH_MODULE(SyncBatchNorm2d);

// Gives the Communicator to all SyncBatchNorm layers in the model, and says how many there are. Throws Error{invalid}
// that names a layer which is a plain BatchNorm1d, 2d or 3d, since that would go on with its rank's batch alone.
int sync_batch_norm(torch::nn::Module& model, Communicator* communicator);
inline int sync_batch_norm(torch::nn::Module& model, Communicator& communicator) {
  return sync_batch_norm(model, &communicator);
}

}  // namespace paceline
