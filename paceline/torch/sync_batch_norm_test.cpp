#include "paceline/torch/sync_batch_norm.hpp"

#include <sstream>

#include "paceline/torch/sync_batch_norm_test_support.hpp"

namespace paceline {
namespace {

// Gradients of a loss that treats elements differently.
torch::Tensor uneven_loss(const torch::Tensor& output, const torch::Tensor& weights) {
  return (output.pow(2) * weights + output * weights.sin()).sum();
}

// What a layer gives for a batch: output, gradients of input, weight and bias, running statistics.
template <class Norm>
std::vector<torch::Tensor> results_of(Norm& norm, const torch::Tensor& input, const torch::Tensor& weights) {
  const torch::Tensor x = input.clone().set_requires_grad(true);
  const torch::Tensor output = norm(x);
  uneven_loss(output, weights).backward();
  std::vector<torch::Tensor> results = {output.detach(), x.grad()};
  if (norm->weight.defined()) {
    results.push_back(norm->weight.grad().clone());
    results.push_back(norm->bias.grad().clone());
  }
  if (norm->running_mean.defined()) {
    results.push_back(norm->running_mean);
    results.push_back(norm->running_var);
    results.push_back(norm->num_batches_tracked);
  }
  return results;
}

torch::Tensor seeded(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::TensorOptions());
}

template <class Norm>
void vary(Norm& norm) {
  const torch::NoGradGuard no_grad;
  if (!norm->weight.defined()) return;
  norm->weight.copy_(torch::linspace(0.5, 2, norm->weight.numel()));
  norm->bias.copy_(torch::linspace(-1, 1, norm->bias.numel()));
}

// Each rank has some rows of the batch; `sizes` may have zeros.
template <class Plain, class Sync>
void expect_whole_batch(const std::vector<std::int64_t>& sizes, std::vector<std::int64_t> shape,
                        const torch::nn::BatchNormOptions& options) {
  for (const std::int64_t size : sizes) shape[0] += size;
  const torch::Tensor input = seeded(shape, 1) * 3 + 10, weights = seeded(shape, 2);
  Plain plain(options);
  vary(plain);
  const auto whole = results_of(plain, input, weights);
  run_shm_ranks(static_cast<int>(sizes.size()), [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(endpoint.size()));
    Sync norm(options);
    vary(norm);
    sync_batch_norm(*norm, world);
    const auto rank = static_cast<std::size_t>(endpoint.rank());
    std::int64_t first = 0;
    for (std::size_t r = 0; r < rank; ++r) first += sizes[r];
    const auto part = [&](const torch::Tensor& all) { return all.narrow(0, first, sizes[rank]); };
    auto own = results_of(norm, part(input), part(weights));
    EXPECT_TRUE(torch::allclose(own[0], part(whole[0]), 1e-5, 1e-5)) << "outputs";
    EXPECT_TRUE(torch::allclose(own[1], part(whole[1]), 1e-5, 1e-5)) << "gradients of the input";
    for (std::size_t i = 2; i < own.size(); ++i) {
      const bool summed = options.affine() && i < 4;  // the layer's gradients, which DataParallel would add up
      if (summed) allreduce(world, own[i]);
      EXPECT_TRUE(torch::allclose(own[i], whole[i], 1e-5, summed ? 1e-4 : 1e-5)) << "result " << i;
    }
  });
}

TEST(SyncBatchNorm, PartsOfABatchAreNormalisedAsTheWhole) {
  using torch::nn::BatchNormOptions;
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{4, 4}, {7, 1}, {3, 5, 2}, {4, 0, 1}}) {
    for (const BatchNormOptions& options :
         {BatchNormOptions(5), BatchNormOptions(5).momentum(c10::nullopt), BatchNormOptions(5).affine(false),
          BatchNormOptions(5).track_running_stats(false).eps(0.1)}) {
      expect_whole_batch<torch::nn::BatchNorm1d, SyncBatchNorm1d>(sizes, {0, 5}, options);
      expect_whole_batch<torch::nn::BatchNorm1d, SyncBatchNorm1d>(sizes, {0, 5, 3}, options);
      expect_whole_batch<torch::nn::BatchNorm2d, SyncBatchNorm2d>(sizes, {0, 5, 4, 3}, options);
    }
  }
}

TEST(SyncBatchNorm, DoesWhatBatchNormDoesWithoutACommunicatorAndWhenEvaluating) {
  torch::nn::BatchNorm2d plain(3);
  SyncBatchNorm2d norm(3);
  for (int step = 0; step < 2; ++step) {
    const torch::Tensor input = seeded({4, 3, 2, 2}, 1);
    EXPECT_TRUE(same_bits(results_of(norm, input, input), results_of(plain, input, input)));
    plain->eval();
    norm->eval();
  }
}

TEST(SyncBatchNorm, TrainsInsideDataParallel) {
  for (const int ranks : {2, 3}) {
    for (const std::string plan : {"", "where=ring"})
      run_shm_ranks(ranks, [&](Endpoint& endpoint) { train_with_batch_norm(endpoint, ranks, plan); });
  }
}

TEST(SyncBatchNorm, StatisticsCanBeThoseOfSomeRanks) {
  run_shm_ranks(4, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(4));
    Communicator half = world.split(endpoint.rank() / 2, endpoint.rank());
    SyncBatchNorm1d norm(6);
    sync_batch_norm(*norm, half);
    norm(inputs(endpoint.rank(), 0));
    const int first = endpoint.rank() / 2 * 2;
    const torch::Tensor mean = torch::cat({inputs(first, 0), inputs(first + 1, 0)}).mean(0);
    EXPECT_TRUE(torch::allclose(norm->running_mean, 0.1 * mean, 1e-5, 1e-6));
    world.barrier();
  });
}

TEST(SyncBatchNorm, ModelsAreSavedUnderBatchNormsNames) {
  PlainNormed plain = make_seeded<PlainNormed>(7);
  std::stringstream stream;
  torch::save(plain, stream);
  SyncNormed net = make_seeded<SyncNormed>(8);
  torch::load(net, stream);
  EXPECT_TRUE(same_bits(net->parameters(), plain->parameters()));
}

TEST(SyncBatchNorm, FindsItsLayersAndRefusesPlainOnes) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(1));
    torch::nn::Sequential net(torch::nn::Linear(4, 4), SyncBatchNorm1d(4), SyncNormed());
    EXPECT_EQ(sync_batch_norm(*net, world), 2);
    net->push_back(torch::nn::BatchNorm1d(4));
    EXPECT_TRUE(contains(sentence_of([&] { sync_batch_norm(*net, world); }), "layer '3' is a plain BatchNorm"));
  });
}

TEST(SyncBatchNorm, WhatCannotBeNormalisedIsRefused) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(1));
    SyncBatchNorm1d norm(3);
    sync_batch_norm(*norm, world);
    EXPECT_TRUE(contains(sentence_of([&] { norm(torch::ones({1, 3})); }), "needs two"));
    EXPECT_TRUE(contains(sentence_of([&] { norm(torch::ones({2, 3, 4, 5})); }), "of 2 or 3 dimensions, not of 4"));
    EXPECT_TRUE(contains(sentence_of([&] { SyncBatchNorm2d(3)->forward(torch::ones({2, 3})); }), "of 4 dimensions"));
  });
}

}  // namespace
}  // namespace paceline
