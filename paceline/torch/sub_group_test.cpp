// Models of their own on parts of the ranks, and buffers.
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

// Trains on a group with the batches of the ranks' indices in it, from a seed; gives the parameters.
std::vector<torch::Tensor> train_on(Endpoint& endpoint, const Group& group, std::uint64_t seed,
                                    const std::string& plan) {
  SmallNet net = make_net(seed);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  DataParallel parallel(endpoint, group, *net, sgd, plan, {.check_every = 1});
  const auto steps = static_cast<int>(3 + seed);  // halves need not keep step
  for (int step = 0; step < steps; ++step) {
    sgd.zero_grad();
    loss_of(net, inputs(group.index_of(endpoint.rank()), step)).backward();
    parallel.step();
  }
  parallel.drain();
  return copies(net->parameters());
}

TEST(SubGroups, TwoHalvesTrainSeparately) {
  for (const std::string plan : {"", "where=ring", "when=delayed:2"}) {
    std::vector<std::vector<torch::Tensor>> alone(2), found(4);
    for (const std::uint64_t half : {0u, 1u}) {
      run_shm_ranks(2, [&](Endpoint& endpoint) {
        auto result = train_on(endpoint, Group::world(2), half, plan);
        if (endpoint.rank() == 0) alone[half] = std::move(result);
      });
    }
    run_shm_ranks(4, [&](Endpoint& endpoint) {
      Communicator world(endpoint, Group::world(4));
      const int half = endpoint.rank() % 2;  // of ranks that are not side by side
      const Communicator own = world.split(half, endpoint.rank());
      found[static_cast<std::size_t>(endpoint.rank())] =
          train_on(endpoint, own.group(), static_cast<std::uint64_t>(half), plan);
      world.barrier();
    });
    for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(same_bits(found[rank], alone[rank % 2])) << rank << plan;
  }
}

TEST(Buffers, AreAveragesOrRankZeros) {
  for (const BufferPolicy policy : {BufferPolicy::average, BufferPolicy::rank0}) {
    run_shm_ranks(3, [&](Endpoint& endpoint) {
      torch::nn::BatchNorm1d norm(6);
      torch::optim::SGD sgd(norm->parameters(), 0.1);
      DataParallel parallel(endpoint, Group::world(3), *norm, sgd, "", {.buffers = policy});
      norm->forward(inputs(endpoint.rank(), 0)).sum().backward();
      const auto means = allgather(parallel.communicator(), norm->running_mean);
      parallel.step();
      parallel.sync_buffers();
      const torch::Tensor wanted = policy == BufferPolicy::rank0 ? means[0] : (means[0] + means[1] + means[2]) / 3;
      EXPECT_TRUE(torch::allclose(norm->running_mean, wanted, 1e-6, 1e-7));
      EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
    });
  }
}

}  // namespace
}  // namespace paceline
