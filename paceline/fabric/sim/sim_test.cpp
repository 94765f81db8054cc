// The simulated world as a whole: replay, time, ends of runs.
#include "paceline/fabric/sim/sim.hpp"

#include <gtest/gtest.h>

#include <set>

#include "paceline/fabric/sim/sim_test_support.hpp"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using sim_test::everybody_to_everybody;
using sim_test::Node;
using Outcome = SimReport::Outcome;

SimReport run_random(std::uint64_t seed, int ranks, int frames) {
  return sim_test::run({.ranks = ranks, .seed = seed, .faults = Faults::random(seed, ranks)},
                       [&](Node& node, Rank) { everybody_to_everybody(node, frames); });
}

TEST(SimReplay, TheSameSeedGivesTheSameTrace) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const SimReport first = run_random(seed, 4, 10);
    const SimReport second = run_random(seed, 4, 10);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.duration, second.duration);
    EXPECT_EQ(first.counters.calls, second.counters.calls);
    EXPECT_EQ(first.describe(), second.describe());
    hashes.insert(first.trace_hash);
  }
  EXPECT_EQ(hashes.size(), 50u);
}

TEST(SimReplay, NoSeedHangsOrIsStopped) {
  std::uint64_t killed = 0;
  for (std::uint64_t seed = 1000; seed < 1150; ++seed) {
    const SimReport report = run_random(seed, 4, 16);
    EXPECT_EQ(report.stopped, "") << report.describe();
    for (const SimReport::OfRank& rank : report.ranks) {
      EXPECT_TRUE(rank.outcome == Outcome::finished || rank.outcome == Outcome::killed) << report.describe();
      killed += rank.outcome == Outcome::killed;
    }
  }
  EXPECT_GT(killed, 5u);
}

TEST(SimReplay, SlowAThousandSmallRunsWithFaults) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const SimReport report = run_random(seed, 4, 16);
    ASSERT_EQ(report.stopped, "") << report.describe();
  }
}

TEST(SimTime, ARankAloneSleepsWithoutRealTimePassing) {
  const SimReport report = sim_test::run({.ranks = 1}, [](Node& node, Rank) {
    const TimePoint start = node.now();
    node.transport->wait(start + 20min);
    EXPECT_GE(node.now(), start + 20min);
    EXPECT_LT(node.now(), start + 20min + 1us);
  });
  EXPECT_TRUE(report.ok()) << report.describe();
  EXPECT_GE(report.duration, 20min);
}

TEST(SimTime, ALoopThatOnlyReadsTheClockEnds) {
  const SimReport report = sim_test::run({.ranks = 2}, [](Node& node, Rank) {
    while (node.now() < node.since_start(10us)) {
    }
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimTime, ComputingTakesTimeAndMoreOnASlowRank) {
  SimWorld world({.ranks = 2, .faults = {.slow = {{.rank = 1, .factor = 8}}}});
  const SimReport report = world.run([&](std::unique_ptr<Transport> transport, Rank rank) {
    world.compute(rank, 1ms);
    transport->close();
  });
  EXPECT_TRUE(report.ok()) << report.describe();
  const Duration quick = report.ranks[0].ended - kSimStart;
  const Duration slow = report.ranks[1].ended - kSimStart;
  EXPECT_GE(quick, 1ms);
  EXPECT_LT(quick, 1001us);
  EXPECT_GE(slow, 8ms);
  EXPECT_LT(slow, 8008us);
}

TEST(SimTime, PausesHoldARankUp) {
  const Faults faults{.slow = {{.rank = 0, .factor = 1, .pause_chance = 0.5, .pause = 1ms}}};
  const auto body = [](Node& node, Rank) {
    for (int i = 0; i < 100; ++i) node.transport->poll(node.got);
  };
  const SimReport report = sim_test::run({.ranks = 2, .faults = faults}, body);
  EXPECT_GT(report.ranks[0].ended - kSimStart, 10ms);
  EXPECT_LT(report.ranks[1].ended - kSimStart, 1ms);
}

TEST(SimTime, RanksTakeTurnsInTheOrderOfTheirTime) {
  // Each rank notes the time at which it acts; nobody may act further behind than the lookahead.
  std::vector<TimePoint> acts;
  const SimReport report = sim_test::run({.ranks = 5, .link = {.latency = 2us}}, [&](Node& node, Rank rank) {
    for (int i = 0; i < 50; ++i) {
      node.transport->wait(node.now() + std::chrono::nanoseconds(300 + 170 * rank));
      acts.push_back(node.now());
    }
  });
  EXPECT_TRUE(report.ok());
  TimePoint latest = kSimStart;
  for (const TimePoint act : acts) {
    EXPECT_GE(act, latest - 2us - 10ns);
    latest = std::max(latest, act);
  }
}

TEST(SimEnd, ADeadlockNamesWhoWaitsSinceWhen) {
  const SimReport report = sim_test::run({.ranks = 3}, [](Node& node, Rank rank) {
    if (rank == 2) return;
    node.transport->wait(node.since_start(5us));
    node.until([] { return false; });
  });
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.ranks[0].outcome, Outcome::stopped);
  EXPECT_EQ(report.ranks[1].outcome, Outcome::stopped);
  EXPECT_EQ(report.ranks[2].outcome, Outcome::finished);
  EXPECT_NE(report.stopped.find("rank 0 waits since"), std::string::npos) << report.stopped;
  EXPECT_NE(report.stopped.find("rank 2 ended at"), std::string::npos) << report.stopped;
  try {
    report.rethrow();
    FAIL() << "rethrow returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
    EXPECT_EQ(error.what(), report.stopped);
  }
}

TEST(SimEnd, ARankThatWaitsButNeverTakesIsStopped) {
  const SimReport report = sim_test::run({.ranks = 2, .max_calls = 1000}, [](Node& node, Rank rank) {
    if (rank == 0) return node.put(1, 1);
    while (true) node.transport->wait(kNever);  // returns at once while there is something to take
  });
  EXPECT_EQ(report.ranks[1].outcome, Outcome::stopped);
}

TEST(SimEnd, CodeThatSwallowsEverythingIsStoppedAllTheSame) {
  int caught = 0;
  const SimReport report = sim_test::run({.ranks = 1}, [&](Node& node, Rank) {
    for (int i = 0; i < 3; ++i) {
      try {
        node.transport->wait(kNever);
      } catch (...) {
        ++caught;
      }
    }
  });
  EXPECT_EQ(caught, 3);
  EXPECT_EQ(report.ranks[0].outcome, Outcome::stopped);
}

TEST(SimEnd, PollingWithoutEndIsStopped) {
  const SimReport report = sim_test::run({.ranks = 2, .max_calls = 1000}, [](Node& node, Rank) {
    while (true) node.transport->read_board(0, 0);
  });
  EXPECT_EQ(report.ranks[0].outcome, Outcome::stopped);
  EXPECT_EQ(report.ranks[1].outcome, Outcome::stopped);
  EXPECT_NE(report.stopped.find("1000 calls"), std::string::npos) << report.stopped;
}

TEST(SimEnd, ARunPastItsVirtualTimeIsStopped) {
  const SimReport report = sim_test::run({.ranks = 2, .max_time = 1s}, [](Node& node, Rank) {
    while (true) node.transport->wait(node.now() + 10ms);
  });
  EXPECT_EQ(report.ranks[0].outcome, Outcome::stopped);
  EXPECT_LE(report.duration, 1010ms);
}

TEST(SimEnd, TheEarliestExceptionIsRethrown) {
  const SimReport report = sim_test::run({.ranks = 3}, [](Node& node, Rank rank) {
    if (rank == 0) node.until([] { return false; });
    node.transport->wait(node.since_start(rank == 2 ? 5us : 50us));
    throw Error(Code::invalid, rank, "of this rank");
  });
  EXPECT_EQ(report.ranks[0].outcome, Outcome::stopped);
  EXPECT_EQ(report.ranks[1].outcome, Outcome::threw);
  try {
    report.rethrow();
    FAIL() << "rethrow returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.rank(), 2);
  }
}

TEST(SimEnd, ADestructorMayCallWhileADyingRankUnwinds) {
  // Waits, as an Endpoint that closes might, for a peer that will not answer.
  struct Guard {
    Node& node;
    ~Guard() {
      node.try_put(1, 1);
      while (!node.got.departure_of(1)) {
        node.transport->poll(node.got);
        node.transport->wait(kNever);
      }
      node.transport->read_board(1, 0);
      node.transport->close();
    }
  };
  const Faults faults{.deaths = {{.rank = 0, .at = 10us}}};
  const SimReport report = sim_test::run({.ranks = 2, .faults = faults}, [](Node& node, Rank rank) {
    if (rank == 1) return node.until([&] { return node.got.departure_of(0).has_value(); });
    const Guard guard{node};
    node.until([] { return false; });
  });
  EXPECT_EQ(report.ranks[0].outcome, Outcome::killed);
  EXPECT_EQ(report.ranks[1].outcome, Outcome::finished);
}

TEST(SimEnd, TheLogIsBoundedAndReadable) {
  const SimReport report =
      sim_test::run({.ranks = 2, .log_events = 20}, [](Node& node, Rank) { everybody_to_everybody(node, 30); });
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.log.size(), 20u);
  EXPECT_EQ(report.log.back().event, SimEvent::finish);
  EXPECT_NE(report.describe().find("finish"), std::string::npos);
}

TEST(SimHandOff, ThereAreFewerSwitchesThanCalls) {
  const SimReport report = sim_test::run({.ranks = 4}, [](Node& node, Rank) { everybody_to_everybody(node, 50); });
  EXPECT_TRUE(report.ok());
  EXPECT_LT(report.counters.switches, report.counters.calls / 3);
}

}  // namespace
}  // namespace paceline
