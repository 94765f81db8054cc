#include "paceline/cli/doctor_links.hpp"

#include <gtest/gtest.h>

#include <set>

#include "paceline/fabric/run_ranks.hpp"

namespace paceline {
namespace {

std::vector<int> hosts_of(int hosts, int workers) {
  std::vector<int> by_rank;
  for (int rank = 0; rank < hosts * workers; ++rank) by_rank.push_back(rank / workers);
  return by_rank;
}

std::set<RankPair> pairs_of(const LinkPlan& plan) {
  std::set<RankPair> all;
  for (const auto& round : plan.rounds) {
    for (const RankPair& pair : round) EXPECT_TRUE(all.insert(pair).second) << pair.first << " " << pair.second;
  }
  return all;
}

TEST(PlanLinks, ASmallJobMeasuresEveryPairInTurn) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    const LinkPlan plan = plan_links(hosts_of(1, ranks));
    EXPECT_TRUE(plan.every_pair);
    EXPECT_EQ(pairs_of(plan).size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2));
    for (const auto& round : plan.rounds) EXPECT_EQ(round.size(), 1u);
  }
}

TEST(PlanLinks, EveryTwoHostsMeetWhateverTheirNumber) {
  for (int hosts = 2; hosts <= 40; ++hosts) {
    for (const int workers : {1, 3}) {
      const LinkPlan plan = plan_links(hosts_of(hosts, workers));
      const auto pairs = pairs_of(plan);
      for (int a = 0; a < hosts; ++a) {
        for (int b = a + 1; b < hosts; ++b) EXPECT_TRUE(pairs.count({a * workers, b * workers})) << hosts;
      }
      EXPECT_EQ(plan.every_pair, hosts * workers <= 6 || workers == 1);
    }
  }
}

TEST(PlanLinks, NobodyIsInTwoPairsOfARound) {
  for (int hosts = 1; hosts <= 40; ++hosts) {
    for (const auto& round : plan_links(hosts_of(hosts, 5)).rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_TRUE(busy.insert(a).second);
        EXPECT_TRUE(busy.insert(b).second);
      }
    }
  }
}

TEST(PlanLinks, ManyHostsTakeFewRounds) {
  EXPECT_LE(plan_links(hosts_of(64, 8)).rounds.size(), 63u + 8u);
  EXPECT_LE(plan_links(hosts_of(1, 128)).rounds.size(), 8u);
}

TEST(DoubtfulPairs, AreThoseFarBelowTheirLike) {
  const std::vector<int> hosts = {0, 0, 1, 2};
  std::vector<LinkReport> links;
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      const bool beside = hosts[static_cast<std::size_t>(a)] == hosts[static_cast<std::size_t>(b)];
      if (a != b) links.push_back({a, b, 1, beside ? 10.0 : 1.0});
    }
  }
  EXPECT_TRUE(doubtful_pairs(links, hosts).empty());
  for (LinkReport& link : links) link.gbps /= link.from == 3 && link.to == 2 ? 3 : 1;
  EXPECT_EQ(doubtful_pairs(links, hosts), (std::vector<RankPair>{{2, 3}}));
}

TEST(DoubtfulPairs, AreNeverMany) {
  std::vector<int> hosts;
  std::vector<LinkReport> links;
  for (int rank = 0; rank < 100; ++rank) hosts.push_back(rank);
  for (int a = 0; a < 99; ++a) links.push_back({a, a + 1, 1, a % 5 < 2 ? 0.1 : 1.0});
  EXPECT_LE(doubtful_pairs(links, hosts).size(), 16u);
  EXPECT_TRUE(doubtful_pairs({}, {0}).empty());
}

TEST(SteadyRate, LeavesOutTheBeginning) {
  const TimePoint start{};
  const auto ms = [](int n) { return std::chrono::milliseconds(n); };
  std::vector<LinkArrival> arrivals = {{start + ms(1), 1'000'000}};  // a bucket of tokens that was full
  for (int i = 1; i <= 100; ++i) arrivals.push_back({start + ms(i), 1'000'000 + static_cast<std::size_t>(i) * 10'000});
  EXPECT_NEAR(steady_rate(start, arrivals), 0.01, 1e-6);
}

TEST(SteadyRate, OfOneArrivalIsThatFromTheStart) {
  const TimePoint start{};
  EXPECT_EQ(steady_rate(start, {}), 0);
  EXPECT_NEAR(steady_rate(start, {{start + std::chrono::milliseconds(10), 10'000'000}}), 1, 1e-9);
}

TEST(MeasureLink, GivesNumbersThatCanBe) {
  run_ranks(2, [](Endpoint& endpoint) {
    const LinkTiming timing = measure_link(endpoint, 1 - endpoint.rank(), endpoint.rank() == 0);
    if (endpoint.rank() != 0) return;
    EXPECT_GT(timing.latency_us, 0);
    EXPECT_LT(timing.latency_us, 1e5);
    EXPECT_GT(timing.there, 0.01);
    EXPECT_GT(timing.back, 0.01);
    EXPECT_LE(std::abs(timing.clock_ahead), timing.clock_error + 1e-4);  // it is the same clock
  });
}

TEST(MeasureLink, CanBeRepeatedAndTurnedRound) {
  run_ranks(2, [](Endpoint& endpoint) {
    for (int leader = 0; leader < 2; ++leader) {
      const LinkTiming timing = measure_link(endpoint, 1 - endpoint.rank(), endpoint.rank() == leader);
      EXPECT_EQ(timing.there > 0, endpoint.rank() == leader);
    }
  });
}

}  // namespace
}  // namespace paceline
