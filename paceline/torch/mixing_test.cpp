// Plans whose parameters meet: when=local:K, where=gossip, where=hogwild.
#include <atomic>
#include <limits>
#include <sstream>

#include "paceline/torch/replicas.hpp"
#include "paceline/torch/scenario_test_support.hpp"

namespace paceline {
namespace {

const std::vector<std::string> kMixingPlans = {"when=local:1",
                                               "when=local:4",
                                               "when=local:4 where=ring",
                                               "when=local:end",
                                               "where=gossip",
                                               "where=gossip:ring",
                                               "where=gossip:random",
                                               "where=gossip when=async",
                                               "where=gossip:ring when=async",
                                               "where=gossip:random when=async",
                                               "where=hogwild",
                                               "where=hogwild:locked"};

// ---- as a plain loop

// Each rank's net and optimizer in one process, averaged after every K steps over those that have made one.
ScenarioParameters local_reference(const Scenario& s) {
  const auto k = parse_plan(s.plan).local_steps();
  std::vector<ScenarioNet> nets;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (int rank = 0; rank < s.ranks; ++rank) {
    nets.push_back(make_seeded<ScenarioNet>(1, false));
    optimizers.push_back(optimizer_of(s, nets.back()->parameters()));
  }
  int steps = 0;
  for (int rank = 0; rank < s.ranks; ++rank) steps = std::max(steps, s.batches_of(rank));
  std::vector<bool> stepped(static_cast<std::size_t>(s.ranks));
  const auto average = [&] {
    const torch::NoGradGuard no_grad;
    const auto count = std::count(stepped.begin(), stepped.end(), true);
    if (count == 0) return;
    for (std::size_t p = 0; p < nets[0]->parameters().size(); ++p) {
      torch::Tensor sum = torch::zeros_like(nets[0]->parameters()[p]);
      for (std::size_t r = 0; r < nets.size(); ++r) {
        if (stepped[r]) sum += nets[r]->parameters()[p];
      }
      for (ScenarioNet& net : nets) net->parameters()[p].copy_(sum / count);
    }
    std::fill(stepped.begin(), stepped.end(), false);
  };
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < s.ranks; ++rank) {
      if (step >= s.batches_of(rank)) continue;
      const auto r = static_cast<std::size_t>(rank);
      nets[r]->zero_grad(true);
      for (const torch::Tensor& loss : losses_of(s, nets[r], rank, step)) loss.backward();
      ScenarioParameters gradients;
      for (const torch::Tensor& parameter : nets[r]->parameters()) gradients.push_back(parameter.grad());
      if (s.clip > 0) clip_naively(gradients, s.clip);
      optimizers[r]->step();
      stepped[r] = true;
    }
    if ((step + 1) % k == 0) average();
  }
  average();
  return copies(nets[0]->parameters());
}

TEST(Mixing, LocalStepsAreThoseOfAPlainLoop) {
  for (const int ranks : {1, 2, 3}) {
    for (const std::string plan : {"when=local:1", "when=local:3", "when=local:4 where=ring", "when=local:end"}) {
      for (const std::string optimizer : {"sgd", "momentum", "adam"}) {
        for (const bool fuse : {false, true}) {
          const Scenario scenario{.ranks = ranks, .plan = plan, .optimizer = optimizer, .fuse = fuse};
          const ScenarioParameters expected = local_reference(scenario);
          const auto results = train_scenario(scenario);
          for (const ScenarioResult& found : results) {
            EXPECT_TRUE(close(found.parameters, expected)) << ranks << plan << optimizer << fuse;
            EXPECT_TRUE(same_bits(found.parameters, results[0].parameters)) << ranks << plan << optimizer << fuse;
          }
        }
      }
    }
  }
}

TEST(Mixing, LocalStepsGoWithAccumulationClippingUnusedParametersAndUnevenBatches) {
  std::vector<Scenario> scenarios(5,
                                  Scenario{.ranks = 3, .plan = "when=local:3", .optimizer = "momentum", .steps = 13});
  scenarios[0].accumulate = true;
  scenarios[1].clip = 0.1;
  scenarios[2].unused = true;
  scenarios[3].batches = {2, 11, 5};
  scenarios[4].accumulate = scenarios[4].unused = true;
  scenarios[4].clip = 0.3;
  scenarios[4].batches = {7, 0, 4};
  for (const Scenario& scenario : scenarios) {
    const ScenarioParameters expected = local_reference(scenario);
    for (const ScenarioResult& found : train_scenario(scenario))
      EXPECT_TRUE(close(found.parameters, expected)) << &scenario - scenarios.data();
  }
}

TEST(Mixing, AveragingParametersInEveryStepIsAveragingGradientsForSgd) {
  for (const std::string optimizer : {"sgd", "momentum"}) {
    Scenario scenario{.ranks = 3, .plan = "when=local:1", .optimizer = optimizer};
    const ScenarioParameters found = train_scenario(scenario)[0].parameters;
    scenario.plan = "when=bsp";
    EXPECT_TRUE(close(found, train_scenario(scenario)[0].parameters)) << optimizer;
  }
}

TEST(Mixing, BeforeLocalStepsBeginBitsAreThoseOfBsp) {
  for (const std::string optimizer : {"momentum", "adam"}) {
    for (const bool share : {false, true}) {
      Scenario scenario{.ranks = 2, .plan = "when=local:4", .optimizer = optimizer, .share = share, .local_after = 9};
      const ScenarioParameters early = train_scenario(scenario)[0].parameters;
      scenario.steps = 14;
      const auto late = train_scenario(scenario);
      scenario.plan = "";
      scenario.local_after = 0;
      EXPECT_FALSE(same_bits(late[0].parameters, train_scenario(scenario)[0].parameters)) << optimizer;
      scenario.steps = 9;
      EXPECT_TRUE(same_bits(early, train_scenario(scenario)[0].parameters)) << optimizer << share;
      EXPECT_TRUE(same_bits(late[0].parameters, late[1].parameters));
    }
  }
}

TEST(Mixing, RanksMayRunOutOfBatchesBeforeAndAfterLocalStepsBegin) {
  for (const std::vector<int>& batches : {std::vector<int>{3, 20}, std::vector<int>{12, 20}, std::vector<int>{3, 4}}) {
    const Scenario scenario{
        .ranks = 2, .plan = "when=local:4", .optimizer = "momentum", .batches = batches, .local_after = 8};
    const auto results = train_scenario(scenario);
    EXPECT_TRUE(same_bits(results[0].parameters, results[1].parameters)) << batches[0];
  }
}

// ---- that it learns

TEST(Mixing, EveryPlanTrainsAndEndsWithTheSameParametersEverywhere) {
  for (const std::string& plan : kMixingPlans) {
    for (const int ranks : {1, 2, 3}) {
      const auto results = train_scenario({.ranks = ranks, .plan = plan, .optimizer = "momentum", .steps = 60});
      for (const ScenarioResult& found : results) {
        EXPECT_LT(found.last_loss, 0.6 * found.first_loss) << plan << " on " << ranks;
        EXPECT_TRUE(same_bits(found.parameters, results[0].parameters)) << plan << " on " << ranks;
      }
    }
  }
}

TEST(Mixing, EveryPlanTakesAdamStockOptimizersAndDrainsOnTheWay) {
  for (const std::string& plan : kMixingPlans) {
    for (const bool fuse : {false, true}) {
      const auto results = train_scenario(
          {.ranks = 2, .plan = plan, .optimizer = "adam", .steps = 60, .drain_before = {1, 7, 8, 30}, .fuse = fuse});
      EXPECT_LT(results[0].last_loss, 0.7 * results[0].first_loss) << plan << fuse;
      EXPECT_TRUE(same_bits(results[0].parameters, results[1].parameters)) << plan << fuse;
    }
  }
}

TEST(Mixing, MomentumOfAveragesAndAShareOfTheRanksTrainToo) {
  for (const MixChoices& mixing : {MixChoices{.slow_momentum = 0.5}, MixChoices{.participate = 0.5},
                                   MixChoices{.slow_momentum = 0.3, .participate = 0.6}}) {
    const auto results =
        train_scenario({.ranks = 4, .plan = "when=local:4", .optimizer = "sgd", .steps = 80, .mixing = mixing});
    EXPECT_LT(results[0].last_loss, 0.6 * results[0].first_loss) << mixing.slow_momentum << mixing.participate;
    EXPECT_TRUE(same_bits(results[0].parameters, results[3].parameters));
  }
}

TEST(Mixing, WorkersThatNeedNobodyMayHaveDifferentNumbersOfBatches) {
  for (const std::string plan : {"where=hogwild", "where=gossip when=async", "when=local:end"}) {
    const auto results = train_scenario({.ranks = 3, .plan = plan, .optimizer = "momentum", .batches = {60, 0, 35}});
    EXPECT_LT(results[0].last_loss, 0.8 * results[0].first_loss) << plan;
    for (const ScenarioResult& found : results) EXPECT_TRUE(same_bits(found.parameters, results[0].parameters)) << plan;
  }
}

TEST(Mixing, LbfgsStepsOnItsOwnBetweenAverages) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::LBFGS lbfgs(net->parameters(), torch::optim::LBFGSOptions(0.5).max_iter(4));
    DataParallel parallel(endpoint, Group::world(2), *net, lbfgs, "when=local:2");
    const auto evaluate = [&](int step) {
      net->zero_grad();
      torch::Tensor loss = loss_of(net, inputs(endpoint.rank(), step));
      loss.backward();
      return loss;
    };
    const double first = evaluate(0).item<double>();
    for (int step = 0; step < 6; ++step) parallel.step([&] { return evaluate(step); });
    parallel.drain();
    parallel.check_replicas();
    EXPECT_LT(evaluate(0).item<double>(), 0.8 * first);
  });
}

// ---- what is each rank's own

TEST(Mixing, GradientsStayARanksOwnAndNobodyMeetsBetweenMeetings) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    torch::nn::Linear layer(1, 1);
    torch::optim::SGD sgd(layer->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(2), *layer, sgd, "when=local:3");
    for (int step = 0; step < 6; ++step) {
      sgd.zero_grad();
      (layer->weight * (endpoint.rank() + 1)).sum().backward();
      parallel.finish();
      EXPECT_EQ(layer->weight.grad().item<float>(), static_cast<float>(endpoint.rank() + 1));
      EXPECT_FLOAT_EQ(static_cast<float>(parallel.clip_grad_norm(100)), static_cast<float>(endpoint.rank() + 1));
      parallel.step();
      EXPECT_EQ(parallel.met(), step % 3 == 2);
    }
    EXPECT_EQ(parallel.steps(), 6);
  });
}

TEST(Mixing, ACheckpointsOptimizerIsRankZeros) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
    DataParallel parallel(endpoint, Group::world(2), *net, adam, "when=local:4");
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad();
      loss_of(net, inputs(endpoint.rank(), step)).backward();
      parallel.step();
    }
    // Not optimizer_bytes: its order is that of addresses, which differ between ranks.
    const auto states = [&] {
      std::ostringstream own;
      for (const torch::Tensor& parameter : net->parameters()) {
        const auto& state = static_cast<const torch::optim::AdamParamState&>(
            *adam.state().at(c10::guts::to_string(parameter.unsafeGetTensorImpl())));
        for (const torch::Tensor& moment : {state.exp_avg(), state.exp_avg_sq()})
          own.write(static_cast<const char*>(moment.data_ptr()), static_cast<std::streamsize>(moment.nbytes()));
      }
      return allgather(parallel.communicator(), own.str());
    };
    const auto before = states();
    EXPECT_NE(before[0], before[1]);
    parallel.drain();
    parallel.sync_optimizer();
    const auto after = states();
    EXPECT_EQ(after[0], before[0]);
    EXPECT_EQ(after[1], before[0]);
  });
}

// ---- what is refused

std::string refusal_of(const std::string& plan, const std::function<void(DataParallel&, SmallNet&)>& body) {
  std::string sentence;
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    const std::string own = sentence_of([&] {
      DataParallel parallel(endpoint, Group::world(2), *net, sgd, plan);
      body(parallel, net);
    });
    if (endpoint.rank() == 0) sentence = own;
  });
  return sentence;
}

TEST(Mixing, WhatCannotBeIsRefusedWithWhatCan) {
  const auto nothing = [](DataParallel&, SmallNet&) {};
  EXPECT_TRUE(contains(refusal_of("where=ring when=async", nothing), "use where=gossip when=async"));
  EXPECT_TRUE(contains(refusal_of("where=hogwild when=bsp", nothing), "use where=hogwild when=async"));
  for (const std::string plan : {"where=gossip", "where=hogwild"}) {
    EXPECT_TRUE(
        contains(refusal_of(plan, [](DataParallel& parallel,
                                     SmallNet& net) { parallel.step([&] { return loss_of(net, inputs(0, 0)); }); }),
                 "use when=local:8"));
  }
  EXPECT_TRUE(contains(refusal_of("where=gossip", [](DataParallel& parallel, SmallNet&) { parallel.join(); }),
                       "same number of batches"));
  EXPECT_TRUE(contains(refusal_of("when=local:2",
                                  [](DataParallel& parallel, SmallNet& net) {
                                    loss_of(net, inputs(0, 0)).backward();
                                    parallel.step();
                                    parallel.check_replicas();
                                  }),
                       "call drain() before check_replicas()"));
}

TEST(Mixing, ChoicesThatArePartOfNoRoundAreRefused) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    const auto refused = [&](const std::string& plan, DataParallelOptions options) {
      return sentence_of([&] { DataParallel(endpoint, Group::world(1), *net, sgd, plan, options); });
    };
    EXPECT_TRUE(contains(refused("", {.mixing = {.slow_momentum = 0.5}}), "use when=local:8"));
    EXPECT_TRUE(contains(refused("where=gossip", {.mixing = {.participate = 0.5}}), "use when=local:8"));
    EXPECT_TRUE(contains(refused("when=local:2", {.mixing = {.slow_momentum = 1.5}}), "below 1"));
    EXPECT_TRUE(contains(refused("when=delayed:1", {.local_after = 3}), "local_after"));
    EXPECT_EQ(refused("when=local:2", {.local_after = 3, .mixing = {.slow_momentum = 0.5}}), "");
  });
}

TEST(Mixing, SparseGradientsAreRefused) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    ScenarioNet net = make_seeded<ScenarioNet>(1, true);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    EXPECT_TRUE(contains(sentence_of([&] { DataParallel(endpoint, Group::world(2), *net, sgd, "when=local:4"); }),
                         "words.weight"));
  });
}

TEST(Mixing, ABadGradientEndsAllRanks) {
  for (const std::string plan : {"when=local:2", "where=gossip", "where=gossip when=async", "where=hogwild"}) {
    std::atomic<int> told = 0;
    run_shm_ranks(2, [&](Endpoint& endpoint) {
      SmallNet net = make_net();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      const std::string sentence = sentence_of([&] {
        DataParallel parallel(endpoint, Group::world(2), *net, sgd, plan);
        for (int step = 0; step < 4; ++step) {
          sgd.zero_grad();
          torch::Tensor loss = loss_of(net, inputs(endpoint.rank(), step));
          if (endpoint.rank() == 1 && step == 1) loss = loss * std::numeric_limits<float>::quiet_NaN();
          loss.backward();
          parallel.step();
        }
        parallel.drain();
      });
      told += contains(sentence, "NaN or Inf in the gradient") ? 1 : 0;
      EXPECT_NE(sentence, "") << plan;
    });
    EXPECT_GE(told, 1) << plan;
  }
}

}  // namespace
}  // namespace paceline
