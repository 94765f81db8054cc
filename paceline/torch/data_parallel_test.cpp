// What DataParallel promises about numbers: replicas, averages, bits.
#include "paceline/torch/data_parallel.hpp"

#include <mutex>

#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

using Parameters = std::vector<torch::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Parameters)>;

MakeOptimizer sgd(double momentum = 0.9, bool nesterov = false) {
  return [=](Parameters parameters) {
    return std::make_unique<torch::optim::SGD>(
        std::move(parameters), torch::optim::SGDOptions(0.1).momentum(momentum).nesterov(nesterov).weight_decay(1e-3));
  };
}

struct Training {
  int ranks = 2;
  std::string plan = "";
  std::size_t bucket_bytes = 0;
  bool fuse = true;
  bool share = false;
  torch::ScalarType type = torch::kFloat;
  MakeOptimizer optimizer = sgd();
  std::function<void(int, const RankBody&)> run = run_shm_ranks;
};
constexpr int kSteps = 5;

// Trains and gives the parameters of every rank.
std::vector<Parameters> train(const Training& training) {
  std::vector<Parameters> results(static_cast<std::size_t>(training.ranks));
  training.run(training.ranks, [&](Endpoint& endpoint) {
    SmallNet net = make_net(1 + static_cast<std::uint64_t>(endpoint.rank()), training.type);  // rank 0's must win
    auto optimizer = training.optimizer(net->parameters());
    DataParallel parallel(endpoint, Group::world(training.ranks), *net, *optimizer, training.plan,
                          {.bucket_bytes = training.bucket_bytes,
                           .check_every = 2,
                           .fuse = training.fuse,
                           .share_update = training.share});
    for (int step = 0; step < kSteps; ++step) {
      optimizer->zero_grad();
      loss_of(net, inputs(endpoint.rank(), step, training.type)).backward();
      parallel.step();
    }
    results[static_cast<std::size_t>(endpoint.rank())] = copies(net->parameters());
  });
  return results;
}

// One process: each rank's share computed separately, added in rank order, divided.
Parameters reference(const Training& training) {
  SmallNet net = make_net(1, training.type);
  auto optimizer = training.optimizer(net->parameters());
  for (int step = 0; step < kSteps; ++step) {
    Parameters sums;
    for (int rank = 0; rank < training.ranks; ++rank) {
      optimizer->zero_grad();
      loss_of(net, inputs(rank, step, training.type)).backward();
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        const torch::Tensor gradient = net->parameters()[i].grad();
        rank == 0 ? sums.push_back(gradient.clone()) : static_cast<void>(sums[i] += gradient);
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) net->parameters()[i].mutable_grad() = sums[i] / training.ranks;
    optimizer->step();
  }
  return copies(net->parameters());
}

TEST(DataParallel, BitsAreThoseOfOneProcessThatAddsTheSharesInRankOrder) {
  for (const int ranks : {1, 2, 4}) {
    for (const bool fuse : {false, true}) {
      for (const bool share : {false, true}) {
        const Training training{.ranks = ranks, .fuse = fuse, .share = share};
        const Parameters expected = reference(training);
        for (const Parameters& found : train(training))
          EXPECT_TRUE(same_bits(found, expected)) << ranks << " ranks, " << fuse << share;
      }
    }
  }
}

TEST(DataParallel, BitsDoNotDependOnBucketSizeRouteOrBackEnd) {
  const Parameters expected = train({.ranks = 4}).front();
  const auto run_thread_ranks = [](int n, const RankBody& body) { run_ranks(n, body); };
  for (const std::size_t bucket : {std::size_t{1}, std::size_t{500}, std::size_t{1} << 20}) {
    EXPECT_TRUE(same_bits(train({.ranks = 4, .plan = "where=ordered", .bucket_bytes = bucket})[3], expected)) << bucket;
    EXPECT_TRUE(same_bits(train({.ranks = 4, .plan = "where=shm", .bucket_bytes = bucket})[1], expected)) << bucket;
    EXPECT_TRUE(same_bits(train({.ranks = 4, .bucket_bytes = bucket, .run = run_thread_ranks})[2], expected)) << bucket;
  }
}

TEST(DataParallel, EveryRouteTrains) {
  const Parameters expected = reference({.ranks = 3});
  for (const std::string route : {"naive", "ring", "butterfly", "halving-doubling", "tree", "star", "hierarchical"}) {
    const Parameters found = train({.ranks = 3, .plan = "where=" + route}).front();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-4, 1e-6)) << route;
  }
}

TEST(DataParallel, EqualsTheJoinedBatchInDoublePrecision) {
  for (const int ranks : {2, 4}) {
    const Training training{.ranks = ranks, .type = torch::kDouble};
    SmallNet net = make_net(1, torch::kDouble);
    auto optimizer = training.optimizer(net->parameters());
    for (int step = 0; step < kSteps; ++step) {
      Parameters parts;
      for (int rank = 0; rank < ranks; ++rank) parts.push_back(inputs(rank, step, torch::kDouble));
      optimizer->zero_grad();
      loss_of(net, torch::cat(parts)).backward();
      optimizer->step();
    }
    const Parameters found = train(training).front();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double difference = (found[i] - net->parameters()[i]).abs().max().item<double>();
      EXPECT_LT(difference, 1e-12 * net->parameters()[i].abs().max().item<double>()) << ranks << " ranks";
    }
  }
}

// ---- optimizers

struct NamedOptimizer {
  const char* name;
  MakeOptimizer make;
};

std::vector<NamedOptimizer> all_optimizers() {
  using namespace torch::optim;
  return {
      {"SGD", sgd(0)},
      {"momentum", sgd(0.9)},
      {"Nesterov", sgd(0.9, true)},
      {"Adam", [](Parameters p) { return std::make_unique<Adam>(p, AdamOptions(0.01).weight_decay(0.1)); }},
      {"Adam with amsgrad", [](Parameters p) { return std::make_unique<Adam>(p, AdamOptions(0.01).amsgrad(true)); }},
      {"AdamW", [](Parameters p) { return std::make_unique<AdamW>(p, AdamWOptions(0.01).weight_decay(0.1)); }},
      {"RMSprop", [](Parameters p) { return std::make_unique<RMSprop>(p, RMSpropOptions(0.01)); }},
      {"Adagrad", [](Parameters p) { return std::make_unique<Adagrad>(p, AdagradOptions(0.01)); }},
  };
}

TEST(DataParallel, EveryOptimizerWorksThroughStep) {
  for (const NamedOptimizer& optimizer : all_optimizers()) {
    const Parameters expected = reference({.optimizer = optimizer.make});
    const auto stock = train({.fuse = false, .optimizer = optimizer.make});
    EXPECT_TRUE(same_bits(stock[1], expected)) << optimizer.name;
    const auto fused = train({.optimizer = optimizer.make});
    const auto shared = train({.bucket_bytes = 700, .share = true, .optimizer = optimizer.make});
    EXPECT_TRUE(same_bits(fused[0], shared[1])) << optimizer.name;
    EXPECT_TRUE(same_bits(fused[0], fused[1])) << optimizer.name;
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(torch::allclose(fused[0][i], expected[i], 1e-5, 1e-7)) << optimizer.name << " parameter " << i;
  }
}

// The first half of the steps fused, the second by the stock optimizer on the same state, and the other way round.
TEST(DataParallel, FusedAndStockOptimizersShareTheirState) {
  for (const NamedOptimizer& optimizer : all_optimizers()) {
    const Parameters expected = reference({.ranks = 1, .optimizer = optimizer.make});
    for (const bool fused_first : {true, false}) {
      run_shm_ranks(1, [&](Endpoint& endpoint) {
        SmallNet net = make_net();
        auto own = optimizer.make(net->parameters());
        for (int step = 0; step < kSteps; ++step) {
          DataParallel parallel(endpoint, Group::world(1), *net, *own, "", {.fuse = (step < 3) == fused_first});
          own->zero_grad();
          loss_of(net, inputs(0, step)).backward();
          parallel.step();
        }
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(torch::allclose(net->parameters()[i], expected[i], 1e-5, 1e-7)) << optimizer.name;
      });
    }
  }
}

TEST(DataParallel, LbfgsStepsThroughAClosure) {
  using namespace torch::optim;
  const auto make = [](Parameters p) { return std::make_unique<LBFGS>(p, LBFGSOptions(0.5).max_iter(6)); };
  // One process with the mean of both losses.
  SmallNet alone = make_net();
  auto lone = make(alone->parameters());
  double lone_loss = 0;
  for (int step = 0; step < 3; ++step) {
    lone_loss = lone->step([&] {
                      lone->zero_grad();
                      auto loss = (loss_of(alone, inputs(0, 0)) + loss_of(alone, inputs(1, 0))) / 2;
                      loss.backward();
                      return loss;
                    })
                    .item<double>();
  }
  std::vector<Parameters> results(2);
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net(1 + static_cast<std::uint64_t>(endpoint.rank()));
    auto optimizer = make(net->parameters());
    DataParallel parallel(endpoint, Group::world(2), *net, *optimizer);
    double loss_seen = 0;
    for (int step = 0; step < 3; ++step) {
      loss_seen = parallel
                      .step([&] {
                        optimizer->zero_grad();
                        auto loss = loss_of(net, inputs(endpoint.rank(), 0));
                        loss.backward();
                        return loss;
                      })
                      .item<double>();
    }
    EXPECT_NEAR(loss_seen, lone_loss, 1e-4);
    EXPECT_EQ(parallel.steps(), 3);
    results[static_cast<std::size_t>(endpoint.rank())] = copies(net->parameters());
  });
  EXPECT_TRUE(same_bits(results[0], results[1]));
  for (std::size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(torch::allclose(results[0][i], alone->parameters()[i], 1e-2, 1e-3));
}

TEST(DataParallel, AClosureWorksWithAFusedOptimizerToo) {
  std::vector<Parameters> results(2);
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    auto optimizer = sgd()(net->parameters());
    DataParallel parallel(endpoint, Group::world(2), *net, *optimizer);
    for (int step = 0; step < kSteps; ++step) {
      parallel.step([&] {
        optimizer->zero_grad();
        auto loss = loss_of(net, inputs(endpoint.rank(), step));
        loss.backward();
        return loss;
      });
    }
    results[static_cast<std::size_t>(endpoint.rank())] = copies(net->parameters());
  });
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_TRUE(same_bits(results[0], train({}).front()));
}

// Shared updates, then one for which all ranks need all of the state (because of the clipping), then shared ones again.
TEST(DataParallel, SharedAndWholeUpdatesCanFollowEachOther) {
  for (const NamedOptimizer& optimizer : all_optimizers()) {
    std::vector<Parameters> results;
    std::vector<Parameters> later;  // after a stock step on the state that was gathered
    for (const bool share : {false, true}) {
      run_shm_ranks(3, [&](Endpoint& endpoint) {
        SmallNet net = make_net();
        auto own = optimizer.make(net->parameters());
        {
          DataParallel parallel(endpoint, Group::world(3), *net, *own, "",
                                {.bucket_bytes = 600, .check_every = 1, .share_update = share});
          for (int step = 0; step < 6; ++step) {
            own->zero_grad();
            loss_of(net, inputs(endpoint.rank(), step)).backward();
            if (step == 3) parallel.clip_grad_norm(1e-3);
            parallel.step();
          }
          parallel.sync_optimizer();
        }
        if (endpoint.rank() != 2) return;
        results.push_back(copies(net->parameters()));
        own->zero_grad();
        loss_of(net, inputs(0, 9)).backward();
        own->step();
        later.push_back(copies(net->parameters()));
      });
    }
    EXPECT_TRUE(same_bits(results[0], results[1])) << optimizer.name;
    EXPECT_TRUE(same_bits(later[0], later[1])) << optimizer.name;
  }
}

TEST(DataParallel, TheOptimizersStateIsRankZeros) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    const double lr = endpoint.rank() == 0 ? 0.25 : 0.5;
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(lr).momentum(0.9));
    if (endpoint.rank() == 0) {  // has trained alone before
      loss_of(net, inputs(0, 0)).backward();
      optimizer.step();
    }
    DataParallel parallel(endpoint, Group::world(2), *net, optimizer);
    EXPECT_EQ(static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr(), 0.25);
    EXPECT_EQ(optimizer.state().size(), net->parameters().size());
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(net, inputs(endpoint.rank(), step)).backward();
      parallel.step();
    }
    parallel.check_replicas();
  });
}

}  // namespace
}  // namespace paceline
