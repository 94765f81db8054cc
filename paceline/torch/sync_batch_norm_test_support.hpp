// Parts of a batch on several ranks beside the whole batch on one.
#pragma once

#include "paceline/torch/parallel_test_support.hpp"
#include "paceline/torch/sync_batch_norm.hpp"

namespace paceline {

// Normalisation between two layers, so that its input needs a gradient and its output has one of its own.
template <class Norm>
struct NormedImpl : torch::nn::Module {
  NormedImpl()
      : first(this->register_module("first", torch::nn::Linear(6, 5))),
        norm(this->register_module("norm", Norm(5))),
        last(this->register_module("last", torch::nn::Linear(5, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(norm(first(x)))); }
  torch::nn::Linear first;
  Norm norm;
  torch::nn::Linear last;
};
using SyncNormedImpl = NormedImpl<SyncBatchNorm1d>;
using PlainNormedImpl = NormedImpl<torch::nn::BatchNorm1d>;
TORCH_MODULE(SyncNormed);
TORCH_MODULE(PlainNormed);

// Three steps of DataParallel with parts of unequal size, against one process with all of it: the mean over all
// examples, for which a part's loss counts by its share of them.
inline void train_with_batch_norm(Endpoint& endpoint, int ranks, const std::string& plan) {
  PlainNormed alone = make_seeded<PlainNormed>(1);
  SyncNormed net = make_seeded<SyncNormed>(1);
  torch::optim::SGD lone(alone->parameters(), 0.1), sgd(net->parameters(), 0.1);
  DataParallel parallel(endpoint, Group::world(ranks), *net, sgd, plan, {.bucket_bytes = 1, .check_every = 1});
  EXPECT_EQ(sync_batch_norm(*net, parallel.communicator()), 1);
  for (int step = 0; step < 3; ++step) {
    std::vector<torch::Tensor> parts;
    std::int64_t examples = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      parts.push_back(inputs(rank, step).narrow(0, 0, 3 + (rank + step) % 3) + 2.0 * rank);
      examples += parts.back().size(0);
    }
    lone.zero_grad();
    (alone(torch::cat(parts)).pow(2).sum() / examples).backward();
    lone.step();
    sgd.zero_grad();
    const torch::Tensor& own = parts[static_cast<std::size_t>(endpoint.rank())];
    (net(own).pow(2).sum() * (static_cast<double>(ranks) / static_cast<double>(examples))).backward();
    parallel.step();
  }
  parallel.drain();
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    EXPECT_TRUE(torch::allclose(net->parameters()[i], alone->parameters()[i], 1e-4, 1e-5)) << i << plan;
  for (std::size_t i = 0; i < net->buffers().size(); ++i)
    EXPECT_TRUE(torch::allclose(net->buffers()[i], alone->buffers()[i], 1e-5, 1e-5)) << i << plan;
  sync_batch_norm(*net, nullptr);
}

}  // namespace paceline
