// Collectives in the simulator: every operation under delays, the same bits for every seed, and mixed work while ranks
// die and links break. A failing run prints its seed; PACELINE_SEED=n runs that one again, event by event.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <numeric>

#include "paceline/collective/bits_test_support.hpp"
#include "paceline/collective/collective_test_support.hpp"
#include "paceline/collective/mismatch_test_support.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

using namespace collective_test;

void expect_success(const SimReport& report) { EXPECT_TRUE(report.ok()) << report.describe().substr(0, 4000); }

// ---- every operation against its reference

class SimulatedCollectives : public testing::TestWithParam<int> {
 protected:
  // Half of the runs have all ranks on one host.
  static void sweep(int n, int each, std::uint64_t seed) {
    const bool one_host = seed % 2 == 0;
    const auto cases = sample_of_cases(n, each, seed, one_host);
    expect_success(run_sim({.ranks = n,
                            .seed = seed,
                            .faults = Faults::random_delays(seed, n),
                            .shared_memory = one_host,
                            .max_calls = 1'000'000'000},
                           [&](Endpoint& endpoint) { try_cases(endpoint, cases); }));
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, SimulatedCollectives, testing::Range(1, 18));

TEST_P(SimulatedCollectives, GiveWhatTheReferenceGivesUnderDelays) {
  sweep(GetParam(), 1, static_cast<std::uint64_t>(GetParam()));
}

TEST_P(SimulatedCollectives, SlowGiveWhatTheReferenceGivesUnderManyDelays) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) sweep(GetParam(), GetParam() < 9 ? 10 : 4, seed);
}

TEST(SimulatedBits, AreThoseOfASumInRankOrderForEverySeed) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const int n = 2 + static_cast<int>(seed % 4);
    expect_success(
        run_sim({.ranks = n, .seed = seed, .faults = Faults::random_delays(seed, n), .shared_memory = seed % 2 == 0},
                [&](Endpoint& endpoint) { expect_rank_order_bits(endpoint, seed % 3 == 0 ? 256 : 1 << 20); }));
  }
}

TEST(SimulatedBits, AreTheSameOnAllRanksForEveryAlgorithm) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const int n = 2 + static_cast<int>(seed);
    expect_success(
        run_sim({.ranks = n, .seed = seed, .faults = Faults::random_delays(seed, n)}, expect_same_bits_on_all_ranks));
  }
}

// ---- mixed work while ranks die and links break

// What all ranks do, from the seed alone. One item: up to three operations at a time, in the world or in one half of
// it.
struct Work {
  struct Item {
    bool in_halves = false;
    std::vector<Case> cases;
  };
  std::vector<Item> items;

  static Work from(std::uint64_t seed) {
    Random random(seed, 0x1234);
    Work work;
    for (std::size_t i = 0; i < 8; ++i) {
      Item item{.in_halves = random.below(4) == 0, .cases = {}};
      const std::size_t at_a_time = 1 + random.below(3);
      for (std::size_t k = 0; k < at_a_time; ++k) {
        const Collective op = kAllCollectives[random.below(std::size(kAllCollectives))];
        Case one = random_case(random, op, Algorithm::automatic, 1);  // root 0: there is always one
        const auto algorithms = algorithms_to_try(op, false);
        one.algorithm = algorithms[random.below(algorithms.size())];
        one.count = static_cast<std::int64_t>(random.below(3) == 0 ? random.below(4000) : random.below(50));
        item.cases.push_back(one);
      }
      work.items.push_back(item);
    }
    return work;
  }
};

// One rank's way through the work, over failures if they are deaths.
class Worker {
 public:
  using Epochs = std::map<std::uint32_t, std::vector<Rank>>;

  Worker(Endpoint& endpoint, const Work& work, const Faults& faults, Epochs& epochs)
      : endpoint_(endpoint),
        work_(work),
        faults_(faults),
        epochs_(epochs),
        memory_(endpoint, 4 << 20),
        world_(endpoint, Group::world(endpoint.size()),
               {.warn = [](const std::string&) {}, .segment_bytes = kShortSegment}) {}

  void run() {
    for (bool recovering = false;;) {
      try {
        if (recovering) recover();
        for (; next_ < work_.items.size(); ++next_) do_item(work_.items[next_]);
        world_.barrier();
        return;
      } catch (const Error& error) {
        EXPECT_TRUE(faults_.lethal()) << error.what();
        if (!faults_.deaths.empty()) {
          EXPECT_EQ(error.code(), Code::peer_lost) << error.what();
        }
        memory_.reset();
        if (faults_.deaths.empty()) return try_to_recover();
        if (recovering && outvoted()) return;
        recovering = true;
      }
    }
  }

 private:
  void do_item(const Work::Item& item) {
    if (!item.in_halves) return do_cases(world_, item.cases);
    Communicator half = world_.split(world_.rank() % 2, world_.rank());
    try {
      do_cases(half, item.cases);
    } catch (const Error&) {
      // The other half may be well, and must learn of it: in this workload that is what breaks the world.
      Handle dropped = world_.start_barrier();
      dropped.wait();
      throw;
    }
    world_.barrier();
  }

  void do_cases(Communicator& group, const std::vector<Case>& cases) {
    std::vector<Trial> trials;
    std::vector<Handle> handles;
    trials.reserve(cases.size());
    for (const Case& one : cases) {
      trials.emplace_back(group, memory_, one);
      handles.push_back(trials.back().start());
    }
    for (std::size_t i = handles.size(); i-- > 0;) handles[i].wait();
    for (const Trial& trial : trials) EXPECT_EQ(trial.wrong(), "");
    EXPECT_TRUE(memory_.reset());
  }

  // Members may have come to different items: all go on where the first of them is.
  void recover() {
    world_ = world_.recover();
    const auto [agreed, first] = epochs_.emplace(world_.group().epoch(), world_.group().ranks());
    EXPECT_EQ(agreed->second, world_.group().ranks()) << "not all agree on who is left";
    std::vector<std::int64_t> next = {static_cast<std::int64_t>(next_)};
    world_.allreduce(view(next), ReduceOp::max);
    next_ = static_cast<std::size_t>(next[0]);
  }

  // Who has died with its host may live, for all that the others know.
  bool outvoted() const {
    int may_live = 0, here = 0;
    bool has_first = false;
    for (const Rank rank : world_.group().ranks()) {
      if (endpoint_.gone(rank) && !endpoint_.unreachable(rank)) continue;
      if (++may_live == 1) has_first = !endpoint_.gone(rank);
      here += endpoint_.gone(rank) ? 0 : 1;
    }
    return 2 * here < may_live || (2 * here == may_live && !has_first);
  }

  // With links cut, ranks do not see the same peers, and no agreement is promised; but an end is.
  void try_to_recover() {
    try {
      world_.recover(std::chrono::milliseconds(300)).barrier({.timeout = std::chrono::milliseconds(300)});
    } catch (const Error&) {
    }
  }

  Endpoint& endpoint_;
  const Work& work_;
  const Faults& faults_;
  Epochs& epochs_;
  Memory memory_;
  Communicator world_;
  std::size_t next_ = 0;
};

SimReport run_with_faults(std::uint64_t seed) {
  const int n = 2 + static_cast<int>(seed % 5);
  const Faults faults = Faults::random(seed, n);
  const Work work = Work::from(seed);
  Worker::Epochs epochs;
  const auto body = [&](Endpoint& endpoint) { Worker(endpoint, work, faults, epochs).run(); };
  return run_sim({.ranks = n, .seed = seed, .faults = faults, .shared_memory = seed % 2 == 0}, body);
}

void expect_an_end(std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("PACELINE_SEED={}", seed));
  const SimReport report = run_with_faults(seed);
  EXPECT_EQ(report.stopped, "") << report.describe().substr(0, 6000);
  for (const SimReport::OfRank& rank : report.ranks) {
    EXPECT_NE(rank.outcome, SimReport::Outcome::threw) << report.describe().substr(0, 6000);
  }
}

// Seeds of one test: those from its number on, or the one that was asked for.
void expect_ends(std::uint64_t first, std::uint64_t count) {
  if (const char* asked = std::getenv("PACELINE_SEED"); asked != nullptr)
    return expect_an_end(std::strtoull(asked, nullptr, 10));
  for (std::uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) expect_an_end(seed);
}

class Faulty : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(SeedsFrom, Faulty, testing::Range<std::uint64_t>(1, 101, 20),
                         testing::PrintToStringParamName());

TEST_P(Faulty, EveryRankEndsWithRightResultsOrAnError) { expect_ends(GetParam(), 20); }

TEST(FaultyRuns, SlowAThousandSeedsEndWithRightResultsOrAnError) { expect_ends(1, 1000); }

// Of two sides that are cut apart one goes on: the larger, or of equal ones that of rank 0.
TEST(FaultyRuns, OfTwoSidesThatAreCutApartOneGoesOn) {
  const auto first_ranks = [](int count) {
    std::vector<Rank> side(static_cast<std::size_t>(count));
    std::iota(side.begin(), side.end(), 0);
    return side;
  };
  for (const auto& [n, first_side] : {std::pair(4, 1), std::pair(5, 2), std::pair(4, 2), std::pair(5, 3)}) {
    const Faults faults{.partitions = {{.side = first_ranks(first_side), .at = std::chrono::microseconds(50)}}};
    const bool first_goes_on = 2 * first_side >= n;
    const int winners = first_goes_on ? first_side : n - first_side;
    int went_on = 0;
    const auto body = [&, n = n, first_side = first_side](Endpoint& endpoint) {
      Communicator world(endpoint, Group::world(n), {.warn = [](const std::string&) {}});
      std::vector<float> x(1000);
      const auto broken = error_of([&] {
        for (;;) world.allreduce(view(x));
      });
      ASSERT_EQ(broken->code(), Code::peer_lost) << broken->what();
      const auto refused = error_of([&] {
        Communicator next = world.recover();
        EXPECT_EQ(next.size(), winners);
        next.barrier();
        ++went_on;
      });
      EXPECT_EQ(!refused, (endpoint.rank() < first_side) == first_goes_on) << "rank " << endpoint.rank() << " of " << n;
      if (refused) {
        EXPECT_NE(std::string(refused->what()).find("may live"), std::string::npos) << refused->what();
      }
    };
    const SimReport report = run_sim({.ranks = n, .faults = faults}, body);
    EXPECT_EQ(report.stopped, "") << report.describe();
    EXPECT_EQ(went_on, winners);
  }
}

TEST(FaultyRuns, ASeedReplaysEventByEvent) {
  for (const std::uint64_t seed : {3u, 8u, 21u})
    EXPECT_EQ(run_with_faults(seed).trace_hash, run_with_faults(seed).trace_hash) << seed;
}

}  // namespace
}  // namespace paceline
