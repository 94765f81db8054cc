// DataParallel between hosts: ranks are threads that talk through UCX, and a Mover's thread moves gradients.
#include "paceline/fabric/ucx/run_hosts.hpp"
#include "paceline/torch/scenario_test_support.hpp"
#include "paceline/torch/sync_batch_norm_test_support.hpp"

namespace paceline {
namespace {

void run_on_hosts(int n, const RankBody& body) { ucx::run_hosts(n, 1, body); }

TEST(DataParallelOnHosts, DelayedGradientsGiveTheBitsOfThePlainLoop) {
  for (const int ranks : {2, 3}) {
    for (const std::string plan : {"when=bsp", "when=delayed:1", "when=delayed:3"}) {
      const Scenario scenario{.ranks = ranks, .plan = plan, .optimizer = "adam", .run = run_on_hosts};
      const ScenarioParameters expected = reference_of(scenario);
      for (const ScenarioResult& found : train_scenario(scenario))
        EXPECT_TRUE(same_bits(found.parameters, expected)) << plan;
    }
  }
}

TEST(DataParallelOnHosts, EverythingGoesTogether) {
  const Scenario scenario{.ranks = 3,
                          .plan = "when=delayed:2 where=ring",
                          .batches = {7, 2, 5},
                          .accumulate = true,
                          .clip = 0.1,
                          .unused = true,
                          .sparse = true,
                          .run = run_on_hosts};
  EXPECT_TRUE(close(train_scenario(scenario)[1].parameters, reference_of(scenario)));
}

// Its sums are taken in forward and backward, while the Endpoint is lent.
TEST(DataParallelOnHosts, BatchesAreNormalisedTogether) {
  for (const std::string plan : {"", "where=ring"})
    ucx::run_hosts(3, 1, [&](Endpoint& endpoint) { train_with_batch_norm(endpoint, 3, plan); });
}

TEST(DataParallelOnHosts, GradientsTravelWhileTheProgramComputesSomethingElse) {
  ucx::run_hosts(2, 1, [](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(2), *net, sgd, "when=delayed:1", {.check_every = 1});
    for (int step = 0; step < 20; ++step) {
      sgd.zero_grad();
      loss_of(net, inputs(endpoint.rank(), step)).backward();
      parallel.step();
      torch::Tensor metric = torch::ones({1});
      allreduce(parallel.communicator(), metric);  // takes the Endpoint back
      EXPECT_EQ(metric.item<float>(), 2);
      parallel.lend();
    }
    parallel.drain();
  });
}

}  // namespace
}  // namespace paceline
