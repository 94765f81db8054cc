// A plan between sites and another inside them.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "paceline/exchange/sites.hpp"
#include "paceline/torch/replicas.hpp"
#include "paceline/torch/scenario_test_support.hpp"

namespace paceline {
namespace {

const std::vector<std::vector<int>> kPlaces = {{0, 1}, {0, 0, 1}, {0, 0, 1, 1}, {0, 1, 0, 2}};

Scenario sited(const std::vector<int>& places, const std::string& between) {
  return {.ranks = static_cast<int>(places.size()), .between_sites = {.plan = between, .site_of = places}};
}

// One net and optimizer per site in one process. In each step a site's gradient is the average over those of its ranks
// that have a batch; after every K steps parameters are averaged, by numbers of workers, over sites that have stepped.
ScenarioParameters sites_reference(const Scenario& s) {
  const Sites sites = make_sites(s.between_sites.site_of);
  const auto k = parse_plan(s.between_sites.plan).local_steps();
  std::vector<ScenarioNet> nets;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (int site = 0; site < sites.count(); ++site) {
    nets.push_back(make_seeded<ScenarioNet>(1, false));
    optimizers.push_back(optimizer_of(s, nets.back()->parameters()));
  }
  std::vector<bool> stepped(nets.size());
  const auto average = [&] {
    const torch::NoGradGuard no_grad;
    int workers = 0;
    for (std::size_t site = 0; site < nets.size(); ++site)
      workers += stepped[site] ? sites.workers_of(static_cast<int>(site)) : 0;
    if (workers == 0) return;
    for (std::size_t p = 0; p < nets[0]->parameters().size(); ++p) {
      torch::Tensor sum = torch::zeros_like(nets[0]->parameters()[p]);
      for (std::size_t site = 0; site < nets.size(); ++site) {
        if (stepped[site]) sum += nets[site]->parameters()[p] * sites.workers_of(static_cast<int>(site));
      }
      for (ScenarioNet& net : nets) net->parameters()[p].copy_(sum / workers);
    }
    std::fill(stepped.begin(), stepped.end(), false);
  };
  int steps = 0;
  for (int rank = 0; rank < s.ranks; ++rank) steps = std::max(steps, s.batches_of(rank));
  for (int step = 0; step < steps; ++step) {
    if (s.drains_before(step)) average();
    for (std::size_t site = 0; site < nets.size(); ++site) {
      int active = 0;
      nets[site]->zero_grad(true);
      for (int rank = 0; rank < s.ranks; ++rank) {
        const bool here = sites.of_rank[static_cast<std::size_t>(rank)] == static_cast<int>(site);
        if (!here || step >= s.batches_of(rank)) continue;
        ++active;
        for (const torch::Tensor& loss : losses_of(s, nets[site], rank, step)) loss.backward();
      }
      if (active == 0) continue;
      ScenarioParameters gradients;
      for (const torch::Tensor& parameter : nets[site]->parameters()) {
        if (parameter.grad().defined()) parameter.mutable_grad().div_(active);
        gradients.push_back(parameter.grad());
      }
      if (s.clip > 0) clip_naively(gradients, s.clip);
      optimizers[site]->step();
      stepped[site] = true;
    }
    if ((step + 1) % k == 0) average();
  }
  average();
  return copies(nets[0]->parameters());
}

void expect_the_reference(const Scenario& scenario, const std::string& what) {
  const ScenarioParameters expected = sites_reference(scenario);
  const auto results = train_scenario(scenario);
  for (const ScenarioResult& found : results) {
    EXPECT_TRUE(close(found.parameters, expected)) << what;
    EXPECT_TRUE(same_bits(found.parameters, results[0].parameters)) << what;
  }
}

TEST(SitesTraining, IsThatOfAPlainLoop) {
  for (const std::vector<int>& places : kPlaces) {
    for (const std::string between : {"when=local:1", "when=local:4 where=ring"}) {
      for (const std::string optimizer : {"momentum", "adam"}) {
        Scenario scenario = sited(places, between);
        scenario.optimizer = optimizer;
        scenario.share = optimizer == "adam";
        expect_the_reference(scenario, fmt::format("{} {} {}", places.size(), between, optimizer));
      }
    }
  }
}

TEST(SitesTraining, GoesWithAlgorithmsStockOptimizersAccumulationClippingAndUnusedParameters) {
  Scenario usual = sited({0, 0, 1}, "when=local:3");
  usual.optimizer = "momentum";
  usual.steps = 13;
  std::vector<Scenario> scenarios(5, usual);
  scenarios[0].plan = "where=ring";
  scenarios[1].fuse = false;
  scenarios[2].accumulate = true;
  scenarios[2].clip = 0.1;
  scenarios[3].unused = true;
  scenarios[4].plan = "where=ordered";
  scenarios[4].accumulate = scenarios[4].unused = true;
  for (const Scenario& scenario : scenarios)
    expect_the_reference(scenario, fmt::format("{}", &scenario - scenarios.data()));
}

TEST(SitesTraining, RanksAndSitesMayRunOutOfBatches) {
  for (const std::vector<int>& batches : {std::vector<int>{2, 11, 5, 5}, {7, 7, 0, 0}, {0, 0, 3, 9}, {4, 4, 4, 4}}) {
    Scenario scenario = sited({0, 0, 1, 1}, "when=local:3");
    scenario.optimizer = "momentum";
    scenario.batches = batches;
    expect_the_reference(scenario, fmt::format("{} {}", batches[0], batches[2]));
  }
}

TEST(SitesTraining, MayDrainOnTheWay) {
  Scenario scenario = sited({0, 0, 1, 1}, "when=local:3");
  scenario.drain_before = {3, 6};
  expect_the_reference(scenario, "at meetings");
  scenario.drain_before = {1, 2, 7};
  const auto results = train_scenario(scenario);
  for (const ScenarioResult& found : results) EXPECT_TRUE(same_bits(found.parameters, results[0].parameters));
}

TEST(SitesTraining, WithAnAverageAfterEveryStepItIsBspOverAllWorkersForSgd) {
  for (const std::vector<int>& places : kPlaces) {
    Scenario scenario = sited(places, "when=local:1");
    const ScenarioParameters found = train_scenario(scenario)[0].parameters;
    scenario.between_sites = {};
    EXPECT_TRUE(close(found, train_scenario(scenario)[0].parameters)) << places.size();
  }
}

TEST(SitesTraining, MomentumOfAveragesTrainsToo) {
  Scenario scenario = sited({0, 0, 1}, "when=local:4");
  scenario.steps = 80;
  scenario.mixing.slow_momentum = 0.5;
  const auto results = train_scenario(scenario);
  EXPECT_LT(results[0].last_loss, 0.6 * results[0].first_loss);
  EXPECT_TRUE(same_bits(results[0].parameters, results[2].parameters));
  scenario.mixing = {};
  EXPECT_FALSE(same_bits(results[0].parameters, train_scenario(scenario)[0].parameters));
}

// What LBFGS makes of three steps with the batches of these ranks; `rank` is this one's.
std::vector<torch::Tensor> three_closures(Endpoint& endpoint, int rank, const BetweenSites& between) {
  SmallNet net = make_net();
  torch::optim::LBFGS lbfgs(net->parameters(), torch::optim::LBFGSOptions(0.5).max_iter(4));
  DataParallel parallel(endpoint, Group::world(endpoint.size()), *net, lbfgs, "", {.between_sites = between});
  std::vector<torch::Tensor> results;
  for (int step = 0; step < 3; ++step) {
    results.push_back(parallel.step([&] {
      net->zero_grad();
      torch::Tensor loss = loss_of(net, inputs(rank, step));
      loss.backward();
      return loss;
    }));
  }
  for (const torch::Tensor& parameter : copies(net->parameters())) results.push_back(parameter);
  parallel.drain();
  parallel.check_replicas();
  return results;
}

// Closures are evaluated as often as a site's optimizer likes, and see the site's losses and gradients.
TEST(SitesTraining, UntilTheyMeetASiteIsAJobOfItsOwnAlsoForClosures) {
  std::vector<std::vector<torch::Tensor>> sites(3), alone(3);
  run_shm_ranks(3, [&](Endpoint& endpoint) {
    sites[static_cast<std::size_t>(endpoint.rank())] =
        three_closures(endpoint, endpoint.rank(), {.plan = "when=local:100", .site_of = {0, 0, 1}});
  });
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    alone[static_cast<std::size_t>(endpoint.rank())] = three_closures(endpoint, endpoint.rank(), {});
  });
  run_shm_ranks(1, [&](Endpoint& endpoint) { alone[2] = three_closures(endpoint, 2, {}); });
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(same_bits(sites[rank], alone[rank])) << rank;
  EXPECT_FALSE(same_bits(sites[0], sites[2]));
}

TEST(SitesTraining, BetweenMeetingsASiteHasItsOwnGradientsAndParameters) {
  run_shm_ranks(4, [&](Endpoint& endpoint) {
    torch::nn::Linear layer(1, 1);
    torch::optim::SGD sgd(layer->parameters(), 0.1);
    const int site = endpoint.rank() / 2;
    DataParallel parallel(endpoint, Group::world(4), *layer, sgd, "",
                          {.check_every = 1, .between_sites = {.plan = "when=local:3", .site_of = {0, 0, 1, 1}}});
    for (int step = 0; step < 6; ++step) {
      sgd.zero_grad();
      (layer->weight * (endpoint.rank() + 1)).sum().backward();
      parallel.finish();
      EXPECT_EQ(layer->weight.grad().item<float>(), site == 0 ? 1.5f : 3.5f);
      parallel.step();
      EXPECT_EQ(parallel.met(), step % 3 == 2);
      const auto weights = allgather(parallel.communicator(), layer->weight.detach().clone());
      EXPECT_TRUE(torch::equal(weights[0], weights[1]) && torch::equal(weights[2], weights[3]));
      EXPECT_EQ(torch::equal(weights[0], weights[2]), step % 3 == 2);
      if (step == 4) {
        EXPECT_TRUE(contains(sentence_of([&] { parallel.check_replicas(); }), "call drain() before check_replicas()"));
      }
    }
    EXPECT_EQ(parallel.steps(), 6);
  });
}

TEST(SitesTraining, ACheckpointsOptimizerIsRankZeros) {
  run_shm_ranks(4, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    DataParallel parallel(endpoint, Group::world(4), *net, sgd, "",
                          {.share_update = true, .between_sites = {.plan = "when=local:4", .site_of = {0, 0, 1, 1}}});
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      loss_of(net, inputs(endpoint.rank(), step)).backward();
      parallel.step();
    }
    const auto momenta = [&] {
      const torch::Tensor& weight = net->last->weight;
      const auto& state = static_cast<const torch::optim::SGDParamState&>(
          *sgd.state().at(c10::guts::to_string(weight.unsafeGetTensorImpl())));
      return allgather(parallel.communicator(), state.momentum_buffer().clone());
    };
    parallel.drain();
    const auto before = momenta();
    EXPECT_FALSE(torch::equal(before[0], before[2]));
    parallel.sync_optimizer();
    const auto after = momenta();
    for (const torch::Tensor& momentum : after) EXPECT_TRUE(torch::equal(momentum, after[0]));
  });
}

// ---- what is refused, and what goes wrong

TEST(SitesTraining, WhatCannotBeIsRefusedWithWhatCan) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    const auto refused = [&](const std::string& plan, DataParallelOptions options) {
      return sentence_of([&] { DataParallel(endpoint, Group::world(2), *net, sgd, plan, options); });
    };
    const BetweenSites two = {.plan = "when=local:4", .site_of = {0, 1}};
    EXPECT_EQ(refused("", {.between_sites = two}), "");
    EXPECT_TRUE(contains(refused("", {.between_sites = {.plan = "when=local:4"}}), "all workers are at one"));
    EXPECT_TRUE(contains(refused("when=delayed:1", {.between_sites = two}), "when=bsp, with where=allreduce"));
    EXPECT_TRUE(contains(refused("", {.between_sites = {.plan = "when=bsp", .site_of = {0, 1}}}), "when=local:16"));
    EXPECT_TRUE(contains(refused("", {.mixing = {.participate = 0.5}, .between_sites = two}), "step together"));
    EXPECT_TRUE(contains(refused("", {.local_after = 3, .between_sites = two}), "local_after"));
    EXPECT_TRUE(contains(refused("", {.between_sites = {.plan = "when=local:4", .site_of = {0, 1, 1}}}),
                         "3 numbers for the 2 ranks"));
  });
}

TEST(SitesTraining, SparseGradientsAreRefused) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    ScenarioNet net = make_seeded<ScenarioNet>(1, true);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    EXPECT_TRUE(contains(sentence_of([&] {
                           DataParallel(endpoint, Group::world(2), *net, sgd, "",
                                        {.between_sites = {.plan = "when=local:4", .site_of = {0, 1}}});
                         }),
                         "words.weight"));
  });
}

TEST(SitesTraining, ABadGradientInOneSiteEndsAllAndIsNamedByItsRank) {
  for (const int culprit : {1, 3}) {
    std::array<std::string, 4> told;
    run_shm_ranks(4, [&](Endpoint& endpoint) {
      SmallNet net = make_net();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      told[static_cast<std::size_t>(endpoint.rank())] = sentence_of([&] {
        DataParallel parallel(endpoint, Group::world(4), *net, sgd, "",
                              {.between_sites = {.plan = "when=local:2", .site_of = {0, 0, 1, 1}}});
        for (int step = 0; step < 6; ++step) {
          sgd.zero_grad();
          torch::Tensor loss = loss_of(net, inputs(endpoint.rank(), step));
          if (endpoint.rank() == culprit && step == 2) loss = loss * std::numeric_limits<float>::quiet_NaN();
          loss.backward();
          parallel.step();
        }
      });
    });
    for (const std::string& sentence : told) EXPECT_NE(sentence, "") << culprit;
    EXPECT_TRUE(contains(told[static_cast<std::size_t>(culprit)], "NaN or Inf in the gradient"))
        << told[static_cast<std::size_t>(culprit)];
    EXPECT_TRUE(contains(told[static_cast<std::size_t>(culprit)], fmt::format("rank {}", culprit)))
        << told[static_cast<std::size_t>(culprit)];
  }
}

}  // namespace
}  // namespace paceline
