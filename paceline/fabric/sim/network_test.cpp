// Links, their faults, boards and regions, through the Transport of each rank.
#include "paceline/fabric/sim/network.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "paceline/fabric/sim/sim_test_support.hpp"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using sim_test::everybody_to_everybody;
using sim_test::Node;
using Outcome = SimReport::Outcome;

std::vector<std::uint64_t> first_numbers(std::size_t count) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  return numbers;
}

TEST(SimLinks, FramesOfAPairKeepTheirOrderUnderJitterLossAndDuplication) {
  SimCounters sum;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Faults faults{.jitter = 50us, .loss = 0.2, .duplicate = 0.2};
    const SimReport report = sim_test::run({.ranks = 3, .seed = seed, .faults = faults}, [](Node& node, Rank rank) {
      everybody_to_everybody(node, 60, 33);
      for (Rank peer = 0; peer < 3; ++peer) {
        EXPECT_EQ(node.got.tags_from(peer), first_numbers(peer == rank ? 0 : 60));
      }
      for (const auto& frame : node.got.frames) {
        EXPECT_EQ(frame.payload, std::vector<std::byte>(33, static_cast<std::byte>(frame.header.tag)));
      }
    });
    ASSERT_TRUE(report.ok()) << report.describe();
    EXPECT_EQ(report.counters.frames, report.counters.delivered);
    sum.transmissions_lost += report.counters.transmissions_lost;
    sum.duplicates_dropped += report.counters.duplicates_dropped;
    sum.held += report.counters.held;
  }
  EXPECT_GT(sum.transmissions_lost, 1000u);
  EXPECT_GT(sum.duplicates_dropped, 1000u);
  EXPECT_GT(sum.held, 1000u);
}

TEST(SimLinks, FramesOfDifferentPairsOvertakeEachOther) {
  // Rank 0 sends to 2, and only then tells 1, which sends to 2.
  int overtaken = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const SimReport report =
        sim_test::run({.ranks = 3, .seed = seed, .faults = {.jitter = 20us}}, [&](Node& node, Rank rank) {
          if (rank == 0) {
            node.put(2, 0);
            node.put(1, 0);
          } else if (rank == 1) {
            node.until([&] { return node.got.frames.size() == 1; });
            node.put(2, 0);
          } else {
            node.until([&] { return node.got.frames.size() == 2; });
            overtaken += node.got.frames.front().from == 1;
          }
        });
    ASSERT_TRUE(report.ok()) << report.describe();
  }
  EXPECT_GT(overtaken, 5);
  EXPECT_LT(overtaken, 95);
}

TEST(SimLinks, AFullLinkRefusesUntilTheReceiverHasTaken) {
  const SimReport report = sim_test::run({.ranks = 2, .link = {.capacity_frames = 4}}, [](Node& node, Rank rank) {
    if (rank == 1) {
      node.transport->wait(node.since_start(10us));  // returns early, having taken nothing
      while (node.now() < node.since_start(1ms)) node.transport->wait(node.since_start(1ms));
      node.until([&] { return node.got.frames.size() == 10; });
      return;
    }
    int accepted = 0;
    while (node.try_put(1, static_cast<std::uint64_t>(accepted))) ++accepted;
    EXPECT_EQ(accepted, 4);
    for (; accepted < 10; ++accepted) node.put(1, static_cast<std::uint64_t>(accepted));
    EXPECT_GE(node.now(), node.since_start(1ms));
  });
  EXPECT_TRUE(report.ok()) << report.describe();
  EXPECT_GE(report.counters.refused, 2u);
}

TEST(SimLinks, ALinkIsAlsoFullByBytesButNeverForOneFrame) {
  const SimReport report = sim_test::run({.ranks = 2, .link = {.capacity_bytes = 1000}}, [](Node& node, Rank rank) {
    if (rank == 1) return node.until([&] { return node.got.frames.size() == 2; });
    EXPECT_TRUE(node.try_put(1, 0, 4000));
    EXPECT_FALSE(node.try_put(1, 1, 1));
    node.put(1, 1, 1);
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimLinks, TakeLatencyAndBandwidth) {
  const SimLink link{.latency = 10us, .jitter = 0ns, .bytes_per_second = 1e9};
  const SimReport report = sim_test::run({.ranks = 2, .link = link}, [](Node& node, Rank rank) {
    if (rank == 0) {
      for (std::uint64_t i = 0; i < 10; ++i) node.put(1, i, 10'000);
      return;
    }
    node.until([&] { return node.got.frames.size() == 10; });
    EXPECT_GE(node.now(), node.since_start(110us));
    EXPECT_LT(node.now(), node.since_start(115us));
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimLinks, EachPairMayHaveItsOwnLink) {
  SimOptions options{.ranks = 3};
  options.link_between = [](Rank from, Rank to) {
    return from + to == 3 ? SimLink{.latency = 1ms} : SimLink{.latency = 1us};
  };
  const SimReport report = sim_test::run(options, [](Node& node, Rank rank) {
    if (rank == 0) node.put(1, 0);
    if (rank == 2) node.put(1, 0);
    if (rank != 1) return;
    node.until([&] { return node.got.frames.size() == 2; });
    EXPECT_EQ(node.got.frames[0].from, 0);
    EXPECT_GE(node.now(), node.since_start(1ms));
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

constexpr SimLink kPatientLink{.latency = 10us, .jitter = 0ns, .header_bytes = 0, .capacity_frames = 1000};

// 10 frames of 10 us each at 1 GB/s, from each of three ranks to one: one after the other at its port.
TEST(SimPorts, AreSharedByAllWhoSendToARank) {
  const SimOptions options{.ranks = 4, .link = kPatientLink, .port_bytes_per_second = 1e9};
  const SimReport report = sim_test::run(options, [](Node& node, Rank rank) {
    if (rank != 0) {
      for (std::uint64_t i = 0; i < 10; ++i) node.put(0, i, 10'000);
      return;
    }
    node.until([&] { return node.got.frames.size() == 30; });
    EXPECT_GE(node.now(), node.since_start(310us));
    EXPECT_LT(node.now(), node.since_start(316us));
    for (Rank peer = 1; peer < 4; ++peer) EXPECT_EQ(node.got.tags_from(peer), first_numbers(10));
    EXPECT_NE(node.got.frames[0].from, node.got.frames[1].from) << "nobody waits until another has sent all";
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimPorts, AreSharedByAllToWhomARankSends) {
  const SimOptions options{.ranks = 4, .link = kPatientLink, .port_bytes_per_second = 1e9};
  const SimReport report = sim_test::run(options, [](Node& node, Rank rank) {
    if (rank == 0) {
      for (std::uint64_t i = 0; i < 30; ++i) node.put(1 + static_cast<Rank>(i % 3), i, 10'000);
      return;
    }
    node.until([&] { return node.got.frames.size() == 10; });
    EXPECT_GE(node.now(), node.since_start(10us + 10us * (27 + rank)));
    EXPECT_LT(node.now(), node.since_start(16us + 10us * (27 + rank)));
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimPorts, SendAndReceiveAtOnceAndKeepTheOrderOfAPairUnderFaults) {
  const SimOptions both_ways{.ranks = 2, .link = kPatientLink, .port_bytes_per_second = 1e9};
  const SimReport report = sim_test::run(both_ways, [](Node& node, Rank rank) {
    for (std::uint64_t i = 0; i < 10; ++i) node.put(1 - rank, i, 10'000);
    node.until([&] { return node.got.frames.size() == 10; });
    EXPECT_LT(node.now(), node.since_start(116us));
  });
  EXPECT_TRUE(report.ok()) << report.describe();
  const Faults faults{.jitter = 50us, .loss = 0.2, .duplicate = 0.2};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const SimOptions options{.ranks = 3, .seed = seed, .faults = faults, .port_bytes_per_second = 1e8};
    const SimReport faulty = sim_test::run(options, [](Node& node, Rank rank) {
      everybody_to_everybody(node, 60, 33);
      for (Rank peer = 0; peer < 3; ++peer) {
        EXPECT_EQ(node.got.tags_from(peer), first_numbers(peer == rank ? 0 : 60));
      }
    });
    ASSERT_TRUE(faulty.ok()) << faulty.describe();
    EXPECT_EQ(faulty.counters.frames, faulty.counters.delivered);
  }
}

TEST(SimLinks, MayHaveNoLatency) {
  const SimLink link{.latency = 0ns, .jitter = 0ns, .bytes_per_second = 1e12};
  const SimReport report =
      sim_test::run({.ranks = 3, .link = link}, [](Node& node, Rank) { everybody_to_everybody(node, 30); });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimLinks, ARankCanSendToItself) {
  const SimReport report = sim_test::run({.ranks = 1, .faults = {.loss = 0.5}}, [](Node& node, Rank) {
    for (std::uint64_t i = 0; i < 100; ++i) node.put(0, i, 8);
    node.until([&] { return node.got.frames.size() == 100; });
    EXPECT_EQ(node.got.tags_from(0), first_numbers(100));
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimDeparture, ClosingComesAfterEverythingSentBefore) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Faults faults{.jitter = 50us, .loss = 0.3, .duplicate = 0.3};
    const SimReport report = sim_test::run({.ranks = 2, .seed = seed, .faults = faults}, [](Node& node, Rank rank) {
      if (rank == 0) {
        for (std::uint64_t i = 0; i < 20; ++i) node.put(1, i);
        return;
      }
      node.until([&] { return node.got.departure_of(0).has_value(); });
      EXPECT_EQ(node.got.departure_of(0), Departure::closed);
      EXPECT_EQ(node.got.tags_from(0), first_numbers(20));
      EXPECT_TRUE(node.try_put(0, 1)) << "a frame to a peer that is gone is dropped";
    });
    ASSERT_TRUE(report.ok()) << report.describe();
    EXPECT_EQ(report.counters.dropped, 1u);
  }
}

TEST(SimDeparture, ATransportDestroyedWithoutCloseIsLost) {
  SimWorld world({.ranks = 2});
  const SimReport report = world.run([](std::unique_ptr<Transport> transport, Rank rank) {
    Node node{std::move(transport)};
    if (rank == 0) return;
    node.until([&] { return node.got.departure_of(0).has_value(); });
    EXPECT_EQ(node.got.departure_of(0), Departure::lost);
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimDeath, DeliversWhatWasSentThenTheDeparture) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Faults faults{.jitter = 30us, .loss = 0.2, .duplicate = 0.2, .deaths = {{.rank = 0, .at_call = 11}}};
    const SimReport report = sim_test::run({.ranks = 3, .seed = seed, .faults = faults}, [](Node& node, Rank rank) {
      if (rank == 0) {
        for (std::uint64_t i = 0; i < 100; ++i) node.put(1 + static_cast<Rank>(i % 2), i / 2);
        node.until([] { return false; });
      }
      node.until([&] { return node.got.departure_of(0).has_value(); });
      EXPECT_EQ(node.got.departure_of(0), Departure::lost);
      EXPECT_EQ(node.got.tags_from(0), first_numbers(5));
    });
    EXPECT_EQ(report.ranks[0].outcome, Outcome::killed) << report.describe();
    EXPECT_EQ(report.ranks[0].calls, 11u);
    EXPECT_EQ(report.ranks[1].outcome, Outcome::finished);
    EXPECT_NO_THROW(report.rethrow());
  }
}

TEST(SimDeath, WithItsHostLosesWhatHasNotArrived) {
  std::uint64_t vanished = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Faults faults{.jitter = 100us, .deaths = {{.rank = 0, .at = 50us, .how = Faults::Kill::host}}};
    const SimReport report = sim_test::run({.ranks = 2, .seed = seed, .faults = faults}, [](Node& node, Rank rank) {
      if (rank == 0) {
        for (std::uint64_t i = 0;; ++i) node.put(1, i);
      }
      node.until([&] { return node.got.departure_of(0).has_value(); });
      const auto tags = node.got.tags_from(0);
      EXPECT_EQ(tags, first_numbers(tags.size()));
      EXPECT_LT(tags.size(), 200u);
    });
    EXPECT_EQ(report.ranks[0].outcome, Outcome::killed) << report.describe();
    vanished += report.counters.vanished;
  }
  EXPECT_GT(vanished, 100u);
}

TEST(SimDeath, ComesAtItsTimeAlsoToARankThatSleepsOrComputes) {
  for (const bool sleeps : {true, false}) {
    SimWorld world({.ranks = 2, .faults = {.deaths = {{.rank = 0, .at = 5ms}}}, .detection = 100us});
    const SimReport report = world.run([&](std::unique_ptr<Transport> transport, Rank rank) {
      Node node{std::move(transport)};
      if (rank == 0 && sleeps) node.until([] { return false; });
      if (rank == 0) world.compute(rank, 1s);
      node.until([&] { return node.got.departure_of(0).has_value(); });
      EXPECT_GE(node.now(), node.since_start(5100us));
      EXPECT_LE(node.now(), node.since_start(5210us));
    });
    EXPECT_EQ(report.ranks[0].outcome, Outcome::killed);
    EXPECT_EQ(report.ranks[0].ended, kSimStart + 5ms);
    EXPECT_EQ(report.ranks[1].outcome, Outcome::finished) << report.describe();
  }
}

TEST(SimDeath, FreesAPeerThatWaitsForRoom) {
  const Faults faults{.deaths = {{.rank = 1, .at = 100us}}};
  const SimReport report =
      sim_test::run({.ranks = 2, .faults = faults, .link = {.capacity_frames = 1}}, [](Node& node, Rank rank) {
        while (rank == 1) node.transport->wait(node.now() + 1us);
        for (std::uint64_t i = 0; i < 5; ++i) node.put(1, i);
      });
  EXPECT_EQ(report.ranks[0].outcome, Outcome::finished) << report.describe();
}

TEST(SimCut, BothSidesLoseEachOtherAndNobodyElse) {
  const Faults faults{.cuts = {{.a = 0, .b = 1, .at = 20us}}};
  const SimReport report = sim_test::run({.ranks = 3, .faults = faults}, [](Node& node, Rank rank) {
    const TimePoint end = node.since_start(1ms);
    for (std::uint64_t i = 0; node.now() < end; ++i) {
      for (Rank peer = 0; peer < 3; ++peer) {
        if (peer != rank) node.try_put(peer, i);
      }
      node.transport->poll(node.got);
      node.transport->wait(node.now() + 1us);
    }
    if (rank == 2) {
      EXPECT_TRUE(node.got.departures.empty());
    } else {
      ASSERT_EQ(node.got.departures.size(), 1u);
      EXPECT_EQ(node.got.departure_of(1 - rank), Departure::unreachable);
      const std::size_t heard = node.got.tags_from(1 - rank).size();
      EXPECT_EQ(node.got.tags_from(1 - rank), first_numbers(heard));
      EXPECT_GT(heard, 3u);
      EXPECT_LT(heard, 30u);
      EXPECT_GT(node.got.tags_from(2).size(), 100u);
    }
  });
  EXPECT_TRUE(report.ok()) << report.describe();
  EXPECT_GT(report.counters.vanished, 0u);
}

TEST(SimCut, APartitionSeparatesTwoSets) {
  const Faults faults{.partitions = {{.side = {1, 3}, .at = 100us}}};
  const SimReport report = sim_test::run({.ranks = 5, .faults = faults}, [](Node& node, Rank rank) {
    node.sleep_until(node.since_start(1ms));
    for (Rank peer = 0; peer < 5; ++peer) {
      const bool other_side = (peer == 1 || peer == 3) != (rank == 1 || rank == 3);
      EXPECT_EQ(node.got.departure_of(peer).has_value(), other_side) << rank << " and " << peer;
    }
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

BoardRecord filled(std::uint64_t value) {
  BoardRecord record;
  record.fill(value);
  return record;
}

TEST(SimBoards, ARecordIsReadAfterItsDelayAndNeverGoesBack) {
  const Faults faults{.jitter = 5us, .loss = 0.1};
  const SimReport report = sim_test::run({.ranks = 3, .faults = faults}, [](Node& node, Rank rank) {
    if (rank == 0) {
      EXPECT_FALSE(node.transport->read_board(0, 3).has_value());
      for (std::uint64_t i = 1; i <= 200; ++i) node.transport->publish(3, filled(i), Wake::no);
      EXPECT_EQ(node.transport->read_board(0, 3), filled(200));
      return;
    }
    EXPECT_FALSE(node.transport->read_board(0, 3).has_value());
    std::uint64_t last = 0;
    int between = 0;
    while (last < 200) {
      const auto record = node.transport->read_board(0, 3);
      if (!record) continue;
      EXPECT_EQ(*record, filled((*record)[0]));
      EXPECT_GE((*record)[0], last);
      between += (*record)[0] != last;
      last = (*record)[0];
    }
    EXPECT_GT(between, 10);
    EXPECT_FALSE(node.transport->read_board(0, 4).has_value());
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimBoards, RecordsOfOneOwnerArriveInTheOrderOfPublishing) {
  const SimReport report = sim_test::run({.ranks = 2, .faults = {.jitter = 20us}}, [](Node& node, Rank rank) {
    if (rank == 0) {
      for (std::uint64_t i = 1; i <= 100; ++i) {
        node.transport->publish(0, filled(i), Wake::no);
        node.transport->publish(1, filled(i), Wake::no);
      }
      return;
    }
    for (std::uint64_t last = 0; last < 100;) {
      const auto second = node.transport->read_board(0, 1);
      const auto first = node.transport->read_board(0, 0);
      if (second) last = (*second)[0];
      EXPECT_GE(first ? (*first)[0] : 0, last);
    }
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimBoards, AnAlertComesWithTheRecord) {
  const SimReport report = sim_test::run({.ranks = 4}, [](Node& node, Rank rank) {
    if (rank == 2) {
      node.transport->wait(node.since_start(50us));
      return node.transport->publish(0, filled(7), Wake::yes);
    }
    node.until([&] { return node.got.alerts == 1; });
    EXPECT_EQ(node.transport->read_board(2, 0), filled(7));
  });
  EXPECT_TRUE(report.ok()) << report.describe();
  EXPECT_EQ(report.counters.alerts, 3u);
}

TEST(SimBoards, ADeadRanksBoardStaysReadable) {
  for (const Faults::Kill how : {Faults::Kill::process, Faults::Kill::host}) {
    const Faults faults{.deaths = {{.rank = 0, .at = 100us, .how = how}}};
    const SimReport report = sim_test::run({.ranks = 2, .faults = faults}, [](Node& node, Rank rank) {
      if (rank == 0) {
        node.transport->publish(1, filled(5), Wake::no);
        node.until([] { return false; });
      }
      node.until([&] { return node.got.departure_of(0).has_value(); });
      EXPECT_EQ(node.transport->read_board(0, 1), filled(5));
    });
    EXPECT_EQ(report.ranks[1].outcome, Outcome::finished) << report.describe();
  }
}

TEST(SimBoards, RecordsDoNotCrossACut) {
  const Faults faults{.cuts = {{.a = 0, .b = 1, .at = 50us}}};
  const SimReport report = sim_test::run({.ranks = 2, .faults = faults}, [](Node& node, Rank rank) {
    if (rank == 0) {
      node.transport->publish(0, filled(1), Wake::no);
      node.sleep_until(node.since_start(60us));
      return node.transport->publish(0, filled(2), Wake::yes);
    }
    node.sleep_until(node.since_start(1ms));
    EXPECT_EQ(node.transport->read_board(0, 0), filled(1));
    EXPECT_EQ(node.got.alerts, 0);
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimRegions, PeersOfOneHostShareMemory) {
  const SimReport report = sim_test::run({.ranks = 2}, [](Node& node, Rank rank) {
    if (rank == 0) {
      const SharedRegion region = node.transport->allocate(1000);
      EXPECT_EQ(region.memory.size(), 1000u);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.memory.data()) % 64, 0u);
      for (const std::byte byte : region.memory) EXPECT_EQ(byte, std::byte{0});
      region.memory[999] = std::byte{42};
      node.put(1, region.id);
      node.until([&] { return node.got.frames.size() == 1; });
      EXPECT_EQ(region.memory[0], std::byte{43});
      node.transport->release(region.id);
      return node.put(1, 0);
    }
    node.until([&] { return node.got.frames.size() == 1; });
    const std::uint64_t id = node.got.frames[0].header.tag;
    const auto mapped = node.transport->map(0, id);
    ASSERT_TRUE(mapped.has_value());
    EXPECT_EQ((*mapped)[999], std::byte{42});
    (*mapped)[0] = std::byte{43};
    node.put(0, 0);
    node.until([&] { return node.got.departure_of(0).has_value(); });
    EXPECT_FALSE(node.transport->map(0, id).has_value());
    (*mapped)[0] = std::byte{44};  // still there
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

TEST(SimRegions, HostsDoNotShareMemory) {
  const SimReport report = sim_test::run({.ranks = 2, .shared_memory = false}, [](Node& node, Rank rank) {
    const SharedRegion region = node.transport->allocate(64);
    node.sleep_until(node.since_start(1ms));
    EXPECT_FALSE(node.transport->map(1 - rank, region.id).has_value());
    EXPECT_TRUE(node.transport->map(rank, region.id).has_value());
    EXPECT_NE(node.transport->identity(0).host, node.transport->identity(1).host);
    node.transport->release(region.id);
  });
  EXPECT_TRUE(report.ok()) << report.describe();
}

}  // namespace
}  // namespace paceline
