#include "paceline/exchange/gossip_mixer.hpp"

#include <cmath>

#include "paceline/exchange/gossip_test_support.hpp"
#include "paceline/exchange/mixer_test_support.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

double start_of(int rank) { return std::sin(3.0 * rank + 1); }
double mean_of_starts(int ranks) {
  double sum = 0;
  for (int r = 0; r < ranks; ++r) sum += start_of(r);
  return sum / ranks;
}
double distance(const std::vector<double>& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  double square = 0;
  for (const double v : x) square += (v - mean) * (v - mean);
  return std::sqrt(square);
}

// What each rank has after some steps in which nobody learns.
std::vector<double> mixed(int ranks, GossipGraph graph, int steps) {
  std::vector<double> result(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "where=gossip:" + std::string(name(graph)), {.seed = 5});
    own.add(start_of(endpoint.rank()));
    for (int step = 0; step < steps; ++step) own.mixer().end_update(step);
    own.expect(own.doubles()[0], 1e-5);
    result[static_cast<std::size_t>(endpoint.rank())] = own.doubles()[0];
    own.communicator().barrier();
  });
  return result;
}

TEST(GossipMixer, MixesByItsGraphsMatrices) {
  for (const GossipGraph graph : kAllGossipGraphs) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      std::vector<double> expected;
      for (int r = 0; r < ranks; ++r) expected.push_back(start_of(r));
      for (int step = 0; step < 6; ++step)
        expected = product(mixing_matrix({.graph = graph, .ranks = ranks, .step = step, .seed = 5}), expected);
      const std::vector<double> found = mixed(ranks, graph, 6);
      for (int r = 0; r < ranks; ++r) EXPECT_NEAR(found[r], expected[r], 1e-12) << name(graph) << ranks;
    }
  }
}

TEST(GossipMixer, ContractsTheDistanceFromTheMeanAtLeastByTheSpectralGap) {
  constexpr int kSteps = 6;
  for (const GossipGraph graph : {GossipGraph::ring, GossipGraph::exponential}) {
    for (const int ranks : {4, 6, 8}) {
      std::vector<Matrix> steps;
      for (int step = 0; step < kSteps; ++step)
        steps.push_back(mixing_matrix({.graph = graph, .ranks = ranks, .step = step, .seed = 5}));
      const double before = distance(mixed(ranks, graph, 0));
      EXPECT_LE(distance(mixed(ranks, graph, kSteps)), before * contraction(steps) + 1e-9) << name(graph) << ranks;
      EXPECT_LT(contraction(steps), 0.9);
    }
  }
}

TEST(GossipMixer, DrainGivesAllTheMean) {
  for (const std::string plan : {"where=gossip:ring", "where=gossip:random", "where=gossip when=async"}) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      run_shm_threads(ranks, [&](Endpoint& endpoint) {
        MixedRank own(endpoint, plan);
        own.add(start_of(endpoint.rank()));
        for (int step = 0; step < 5; ++step) own.mixer().end_update(step);
        EXPECT_FALSE(own.mixer().agreed());
        own.mixer().drain();
        own.expect(mean_of_starts(ranks), 1e-6);
        EXPECT_TRUE(own.mixer().agreed());
      });
    }
  }
}

TEST(GossipMixer, NeedsAllRanksInEveryStep) {
  run_ranks(2, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "where=gossip:ring");
    try {
      own.mixer().join();
      ADD_FAILURE() << "joined";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("where=gossip when=async"), std::string::npos);
    }
    own.communicator().barrier();
  });
}

// ---- pairs at their own time

// In virtual time; what comes meanwhile does not shorten it.
void compute(Endpoint& endpoint, Duration length) {
  const TimePoint end = endpoint.clock().now() + length;
  while (endpoint.clock().now() < end) endpoint.idle(end);
}

TEST(AsyncGossipMixer, RanksComeCloserThoughNobodyWaits) {
  constexpr int kRanks = 4;
  std::vector<double> before, after(kRanks);
  for (int r = 0; r < kRanks; ++r) before.push_back(start_of(r));
  const SimReport report = run_sim({.ranks = kRanks, .seed = 2}, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "where=gossip:random when=async");
    own.add(start_of(endpoint.rank()));
    for (int step = 0; step < 60; ++step) {
      own.mixer().end_update(step);
      compute(endpoint, std::chrono::microseconds(20 * (endpoint.rank() + 1)));
      own.mixer().progress();
    }
    after[static_cast<std::size_t>(endpoint.rank())] = own.doubles()[0];
    own.mixer().drain();
    own.expect(mean_of_starts(kRanks), 1e-5);  // nothing was lost on the way
  });
  for (const auto& rank : report.ranks) EXPECT_EQ(rank.outcome, SimReport::Outcome::finished);
  EXPECT_LT(distance(after), 0.1 * distance(before));
}

// A circle in which everybody has asked somebody: each goes on, and all get their answers in the end.
TEST(AsyncGossipMixer, ARankThatDoesNotAnswerForLongHoldsNobodyUp) {
  run_ranks(3, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "where=gossip:ring when=async");
    own.add(start_of(endpoint.rank()));
    const int steps = endpoint.rank() == 2 ? 1 : 300;
    for (int step = 0; step < steps; ++step) own.mixer().end_update(step);
    own.mixer().join();
    own.expect(mean_of_starts(3), 1e-5);
  });
}

TEST(AsyncGossipMixer, HasNoDeadlockWhateverTheTiming) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SimReport report = run_sim({.ranks = 5, .seed = seed}, [&](Endpoint& endpoint) {
      MixedRank own(endpoint, "where=gossip when=async", {.seed = seed});
      own.add(start_of(endpoint.rank()));
      for (int step = 0; step < 10 + 5 * endpoint.rank(); ++step) {
        own.mixer().end_update(step);
        compute(endpoint, std::chrono::microseconds(10 * (endpoint.rank() + 1)));
      }
      own.mixer().join();
      own.expect(mean_of_starts(5), 1e-5);
    });
    for (const auto& rank : report.ranks) ASSERT_EQ(rank.outcome, SimReport::Outcome::finished) << seed;
  }
}

TEST(AsyncGossipMixer, APeerThatDiesIsAnErrorAndNoHang) {
  EXPECT_THROW(run_ranks(2,
                         [&](Endpoint& endpoint) {
                           MixedRank own(endpoint, "where=gossip when=async");
                           if (endpoint.rank() == 1) throw Error(Code::unsound, "gone");
                           for (int step = 0; step < 3; ++step) own.mixer().end_update(step);
                           own.mixer().drain();
                         }),
               Error);
}

}  // namespace
}  // namespace paceline
