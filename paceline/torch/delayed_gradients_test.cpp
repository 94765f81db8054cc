// when=delayed:D: gradients that are applied D steps after they were computed.
#include <atomic>

#include "paceline/torch/scenario_test_support.hpp"

namespace paceline {
namespace {

std::string delayed(int steps, const std::string& where = "allreduce") {
  return "when=delayed:" + std::to_string(steps) + " where=" + where;
}

TEST(DelayedGradients, BitsAreThoseOfAPlainLoopThatAppliesGradientsLate) {
  for (const int ranks : {1, 2, 3}) {
    for (const int delay : {1, 2, 5}) {
      for (const std::string optimizer : {"sgd", "momentum", "adam"}) {
        for (const bool fuse : {false, true}) {
          const Scenario scenario{.ranks = ranks, .plan = delayed(delay), .optimizer = optimizer, .fuse = fuse};
          const ScenarioParameters expected = reference_of(scenario);
          for (const ScenarioResult& found : train_scenario(scenario))
            EXPECT_TRUE(same_bits(found.parameters, expected)) << ranks << scenario.plan << optimizer << fuse;
        }
      }
    }
  }
}

TEST(DelayedGradients, BitsDoNotDependOnRouteBucketSizeOrSharing) {
  Scenario scenario{.ranks = 3, .plan = delayed(2), .optimizer = "adam"};
  const ScenarioParameters expected = reference_of(scenario);
  for (const std::string where : {"shm", "ordered"}) {
    for (const std::size_t bucket : {std::size_t{1}, std::size_t{1} << 20}) {
      for (const bool share : {false, true}) {
        scenario.plan = delayed(2, where);
        scenario.bucket_bytes = bucket;
        scenario.share = share;
        EXPECT_TRUE(same_bits(train_scenario(scenario)[1].parameters, expected)) << where << bucket << share;
      }
    }
  }
}

TEST(DelayedGradients, DrainingOnTheWayIsWhatThePlainLoopDoes) {
  for (const int ranks : {1, 2}) {
    for (const double clip : {0.0, 0.2}) {
      const Scenario scenario{.ranks = ranks,
                              .plan = delayed(3),
                              .optimizer = "momentum",
                              .steps = 12,
                              .drain_before = {1, 2, 7},
                              .clip = clip};
      const ScenarioParameters expected = reference_of(scenario);
      const ScenarioParameters found = train_scenario(scenario)[0].parameters;
      EXPECT_TRUE(clip > 0 ? close(found, expected) : same_bits(found, expected)) << ranks << clip;
    }
  }
}

TEST(DelayedGradients, ADelayLongerThanTheTrainingIsAllDrained) {
  const Scenario scenario{.plan = delayed(16), .steps = 4};
  EXPECT_TRUE(same_bits(train_scenario(scenario)[0].parameters, reference_of(scenario)));
}

TEST(DelayedGradients, AccumulatedClippedUnusedAndSparseGradientsAreLateToo) {
  std::vector<Scenario> scenarios(5, Scenario{.ranks = 3, .plan = delayed(2), .steps = 13});
  scenarios[0].accumulate = true;
  scenarios[1].clip = 0.1;
  scenarios[2].unused = true;
  scenarios[2].optimizer = "momentum";  // its weight decay would change what took no part
  scenarios[3].sparse = true;
  scenarios[4].unused = scenarios[4].sparse = scenarios[4].accumulate = true;
  for (const Scenario& scenario : scenarios)
    EXPECT_TRUE(close(train_scenario(scenario)[2].parameters, reference_of(scenario))) << &scenario - scenarios.data();
}

TEST(DelayedGradients, FinishShowsTheGradientThatIsAboutToBeApplied) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    torch::nn::Linear layer(1, 1);
    torch::optim::SGD sgd(layer->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(2), *layer, sgd, "when=delayed:2");
    for (int step = 0; step < 8; ++step) {
      sgd.zero_grad();
      // d/d weight = step + rank, on average step + 0.5
      (layer->weight * static_cast<double>(step + endpoint.rank())).sum().backward();
      parallel.finish();
      EXPECT_EQ(layer->weight.grad().item<float>(), step < 2 ? 0.0f : static_cast<float>(step - 2) + 0.5f);
      if (step < 2) {
        EXPECT_EQ(parallel.clip_grad_norm(1.0), 0);
      }
      parallel.step();
    }
    parallel.drain([] {});  // with something between, gradients are brought everywhere
    EXPECT_EQ(layer->weight.grad().item<float>(), 7.5f);
    EXPECT_EQ(parallel.steps(), 8);
  });
}

TEST(DelayedGradients, TheMemoryOfADelayIsThatOfItsGradients) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    for (const int delay : {0, 1, 4}) {
      torch::nn::Linear layer(torch::nn::LinearOptions(64, 16).bias(false));
      torch::optim::SGD sgd(layer->parameters(), 0.1);
      const DataParallel parallel(endpoint, Group::world(1), *layer, sgd, delay == 0 ? "" : delayed(delay));
      EXPECT_EQ(parallel.delay_bytes(), static_cast<std::size_t>(delay) * 64 * 16 * sizeof(float));
    }
  });
}

TEST(DelayedGradients, ANonFiniteGradientIsNamedByTheStepThatComputedIt) {
  for (const int ranks : {1, 3}) {
    for (const std::string where : {"shm", "ring"}) {
      std::atomic<int> told = 0;
      run_shm_ranks(ranks, [&](Endpoint& endpoint) {
        SmallNet net = make_net();
        torch::optim::SGD sgd(net->parameters(), 0.1);
        DataParallel parallel(endpoint, Group::world(ranks), *net, sgd, delayed(2, where));
        const std::string sentence = sentence_of([&] {
          for (int step = 0; step < 10; ++step) {
            sgd.zero_grad();
            torch::Tensor loss = loss_of(net, inputs(endpoint.rank(), step));
            if (step == 4 && endpoint.rank() == ranks - 1) loss = loss + std::nan("") * net->second->weight.sum();
            loss.backward();
            parallel.step();
          }
        });
        if (contains(sentence, "step 5: NaN or Inf in the gradient of second.weight")) ++told;
        for (const torch::Tensor& p : net->parameters()) EXPECT_TRUE(p.isfinite().all().item<bool>());
      });
      EXPECT_EQ(told, ranks) << where;
    }
  }
}

TEST(DelayedGradients, ADriftedReplicaIsFound) {
  for (const double momentum : {0.0, 0.9}) {
    std::atomic<int> told = 0;
    run_shm_ranks(3, [&](Endpoint& endpoint) {
      SmallNet net = make_net();
      torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(momentum));
      DataParallel parallel(endpoint, Group::world(3), *net, sgd, delayed(2), {.check_every = 4});
      const std::string sentence = sentence_of([&] {
        for (int step = 0; step < 10; ++step) {
          if (step == 3 && endpoint.rank() == 1) {
            const torch::NoGradGuard no_grad;
            net->second->bias[3] += 1e-3;
          }
          sgd.zero_grad();
          loss_of(net, inputs(endpoint.rank(), step)).backward();
          parallel.step();
        }
      });
      if (contains(sentence, "rank 1 (host") && contains(sentence, "second.bias")) ++told;
    });
    EXPECT_EQ(told, 3);
  }
}

TEST(DelayedGradients, WhoForgetsToDrainBreaksNobody) {
  for (const std::string where : {"shm", "ring"}) {
    run_shm_ranks(3, [&](Endpoint& endpoint) {
      for (int time = 0; time < 3; ++time) {
        SmallNet net = make_net();
        torch::optim::SGD sgd(net->parameters(), 0.1);
        DataParallel parallel(endpoint, Group::world(3), *net, sgd, delayed(3, where));
        for (int step = 0; step < 2 + 2 * time; ++step) {
          sgd.zero_grad();
          loss_of(net, inputs(endpoint.rank(), step)).backward();
          parallel.step();
        }
      }
    });
  }
}

TEST(DelayedGradients, AClosureIsRefused) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::LBFGS lbfgs(net->parameters());
    DataParallel parallel(endpoint, Group::world(1), *net, lbfgs, "when=delayed:1");
    EXPECT_TRUE(contains(sentence_of([&] { parallel.step([] { return torch::zeros({1}); }); }), "use when=bsp"));
  });
}

TEST(DelayedGradients, DrainingBetweenBackwardAndStepIsAnError) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(1), *net, sgd, "when=delayed:1");
    loss_of(net, inputs(0, 0)).backward();
    parallel.step();
    loss_of(net, inputs(0, 1)).backward();
    EXPECT_EQ(sentence_of([&] { parallel.drain(); }),
              "drain() between the backward() and the step() of step 2; call it after step()");
    EXPECT_TRUE(contains(sentence_of([&] { parallel.join(); }), "join() between"));
  });
}

}  // namespace
}  // namespace paceline
