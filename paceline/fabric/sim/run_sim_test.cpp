// Endpoints over the simulated world.
#include "paceline/fabric/sim/run_sim.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Outcome = SimReport::Outcome;

// Every rank sends its number to all, small and large by turns, and checks what it gets.
void exchange(Endpoint& endpoint, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const Tag tag{1, static_cast<std::uint64_t>(round)};
    const std::size_t bytes = round % 3 == 2 ? 50'000 : 64;
    const std::vector<std::byte> mine(bytes, static_cast<std::byte>(endpoint.rank()));
    std::vector<std::vector<std::byte>> theirs(static_cast<std::size_t>(endpoint.size()),
                                               std::vector<std::byte>(bytes));
    std::vector<Pending> pending;
    for (Rank peer = 0; peer < endpoint.size(); ++peer) {
      pending.push_back(endpoint.receive(peer, tag, theirs[static_cast<std::size_t>(peer)]));
      pending.push_back(endpoint.send(peer, tag, mine));
    }
    for (Pending& one : pending) one.wait();
    for (Rank peer = 0; peer < endpoint.size(); ++peer) {
      EXPECT_EQ(theirs[static_cast<std::size_t>(peer)], std::vector<std::byte>(bytes, static_cast<std::byte>(peer)));
    }
  }
}

void expect_peer_lost(const SimReport::OfRank& rank, const SimReport& report) {
  try {
    std::rethrow_exception(rank.error);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::peer_lost) << report.describe();
  } catch (...) {
    ADD_FAILURE() << "not an Error\n" << report.describe();
  }
}

TEST(RunSim, DelaysChangeNoResult) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 5);
    const SimReport report = run_sim({.ranks = ranks, .seed = seed, .faults = Faults::random_delays(seed, ranks)},
                                     [](Endpoint& endpoint) { exchange(endpoint, 6); });
    ASSERT_TRUE(report.ok()) << report.describe();
  }
}

TEST(RunSim, SurvivorsGetAnErrorAndARunIsReplayed) {
  int failed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const SimOptions options{.ranks = 4, .seed = seed, .faults = Faults::random(seed, 4)};
    const auto body = [](Endpoint& endpoint) { exchange(endpoint, 20); };
    const SimReport report = run_sim(options, body);
    ASSERT_EQ(report.stopped, "") << report.describe();
    for (const SimReport::OfRank& rank : report.ranks) {
      if (rank.outcome == Outcome::threw) expect_peer_lost(rank, report);
    }
    failed += !report.ok();
    EXPECT_TRUE(report.ok() || options.faults.lethal()) << report.describe();
    EXPECT_EQ(run_sim(options, body).trace_hash, report.trace_hash) << "seed " << seed;
  }
  EXPECT_GT(failed, 5);
}

TEST(RunSim, RanksComputeInVirtualTime) {
  const SimReport report = run_sim({.ranks = 2}, [](Endpoint& endpoint, SimWorld& world) {
    if (endpoint.rank() == 0) world.compute(0, 3s);
    exchange(endpoint, 1);
    EXPECT_GE(endpoint.clock().now(), kSimStart + 3s);
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

}  // namespace
}  // namespace paceline
