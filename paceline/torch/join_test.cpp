// Workers with different numbers of batches.
#include "paceline/torch/scenario_test_support.hpp"

namespace paceline {
namespace {

// Every rank ends with the reference's parameters, and with the others'.
void expect_reference(const Scenario& scenario, const std::string& what) {
  const ScenarioParameters expected = reference_of(scenario);
  const auto results = train_scenario(scenario);
  for (const ScenarioResult& found : results) {
    EXPECT_TRUE(close(found.parameters, expected)) << what;
    EXPECT_TRUE(same_bits(found.parameters, results[0].parameters)) << what;
  }
}

const std::vector<std::vector<int>> kBatches = {{3, 5},    {0, 4},       {7, 0},       {1, 1},
                                                {2, 7, 4}, {0, 0, 3},    {6, 6, 5},    {0, 0, 0},
                                                {4, 0, 1}, {5, 3, 7, 2}, {1, 0, 0, 6}, {7, 7, 7, 0}};

std::string text_of(const std::vector<int>& batches) {
  std::string text;
  for (const int count : batches) text += std::to_string(count) + " ";
  return text + "batches";
}

TEST(Join, GivesWhatOneProcessGivesThatAveragesOverThoseWithABatch) {
  for (const auto& batches : kBatches) {
    for (const std::string optimizer : {"sgd", "momentum", "adam"}) {
      const Scenario scenario{.ranks = static_cast<int>(batches.size()), .optimizer = optimizer, .batches = batches};
      expect_reference(scenario, text_of(batches) + optimizer);
    }
  }
}

TEST(Join, CanDivideByAllRanks) {
  for (const auto& batches : kBatches) {
    const Scenario scenario{.ranks = static_cast<int>(batches.size()),
                            .optimizer = "momentum",
                            .batches = batches,
                            .divide_by_active = false};
    expect_reference(scenario, text_of(batches));
  }
}

TEST(Join, GoesWithDelayedClippedUnusedAndSparseGradientsAndSharedUpdates) {
  for (const auto& batches : kBatches) {
    std::vector<Scenario> scenarios(
        7, Scenario{.ranks = static_cast<int>(batches.size()), .optimizer = "momentum", .batches = batches});
    scenarios[0].plan = "when=delayed:1";
    scenarios[1].plan = "when=delayed:4 where=ring";
    scenarios[2].clip = 0.1;
    scenarios[3].unused = true;
    scenarios[4].sparse = true;
    scenarios[4].optimizer = "sgd";
    scenarios[5].share = true;
    scenarios[5].optimizer = "adam";
    scenarios[6] = {.ranks = scenarios[6].ranks,
                    .plan = "when=delayed:2",
                    .batches = batches,
                    .accumulate = true,
                    .clip = 0.1,
                    .unused = true,
                    .sparse = true};
    for (std::size_t i = 0; i < scenarios.size(); ++i)
      expect_reference(scenarios[i], text_of(batches) + ", scenario " + std::to_string(i));
  }
}

TEST(Join, WhileAllHaveBatchesTheBitsAreThoseOfTrainingWithoutIt) {
  const Scenario even{.ranks = 3, .optimizer = "momentum", .steps = 5};
  Scenario joined = even;
  joined.batches = {5, 5, 5};
  EXPECT_TRUE(same_bits(train_scenario(even)[0].parameters, train_scenario(joined)[2].parameters));
}

TEST(Join, EpochsCanFollowEachOther) {
  run_shm_ranks(3, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::Adam adam(net->parameters(), 0.01);
    DataParallel parallel(endpoint, Group::world(3), *net, adam, "", {.check_every = 1});
    std::int64_t steps = 0;
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (int step = 0; step < (endpoint.rank() + epoch) % 3; ++step) {
        adam.zero_grad();
        loss_of(net, inputs(endpoint.rank(), step)).backward();
        parallel.step();
      }
      parallel.join();
      steps += 2;  // the most of any rank
      EXPECT_EQ(parallel.steps(), steps);
    }
  });
}

}  // namespace
}  // namespace paceline
