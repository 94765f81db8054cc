#include "paceline/collective/schedules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>

#include "paceline/collective/verify.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

using OfRank = std::function<Schedule(int rank)>;

int floor_log2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
int ceil_log2(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }
int power_below(int n) { return 1 << floor_log2(n); }
bool is_power(int n) { return n == power_below(n); }

// What docs/algorithms.md promises. `sent` is in units of the schedule's output: what the busiest rank sends.
struct Promise {
  int rounds = 0;
  double sent = 0;
  bool bits_of_blocks = true;  // the same bits whatever block an element falls into
};

double busiest(int n, const OfRank& schedule_of) {
  double most = 0;
  for (int rank = 0; rank < n; ++rank) most = std::max(most, count_sends(schedule_of(rank)).sent_vectors);
  return most;
}

void prove(const Goal& goal, const OfRank& schedule_of, const Promise& promise) {
  const int n = goal.ranks;
  const Verdict verdict = verify(goal, [&](int rank) { return link_steps(schedule_of(rank), n); });
  for (const std::string& finding : verdict.findings) ADD_FAILURE() << finding;
  EXPECT_EQ(verdict.rounds, promise.rounds) << goal.name << " n " << n;
  EXPECT_NEAR(busiest(n, schedule_of), promise.sent, 1e-9) << goal.name << " n " << n;
  EXPECT_TRUE(verdict.same_bits_on_all_ranks) << goal.name << " n " << n;
  EXPECT_EQ(verdict.same_bits_in_all_blocks, promise.bits_of_blocks) << goal.name << " n " << n;
}

void prove_allreduce(Schedule (*generator)(int, int), const std::function<Promise(int)>& promise) {
  for (int n = 1; n <= 64; ++n) {
    prove(
        goals::allreduce(n), [=](int rank) { return generator(n, rank); }, promise(n));
  }
}

bool any_overlap(const std::vector<Blocks>& a, const std::vector<Blocks>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Blocks& x) {
    return std::any_of(b.begin(), b.end(), [&](const Blocks& y) { return x.overlaps(y); });
  });
}

// Every pair of steps, one after the other.
std::vector<std::vector<int>> obvious_waits(const Schedule& s, int ranks) {
  std::vector<std::vector<int>> waits(s.steps.size());
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Step &later = s.steps[i], &earlier = s.steps[j];
      const bool conflict = any_overlap(writes(later), reads(earlier, s, ranks)) ||
                            any_overlap(writes(later), writes(earlier)) ||
                            any_overlap(reads(later, s, ranks), writes(earlier));
      const bool fence = later.action >= Action::meet;
      if (earlier.communicates() && (conflict || fence)) waits[i].push_back(static_cast<int>(j));
    }
  }
  return waits;
}

TEST(LinkSteps, FindsTheSameWaitsAsAComparisonOfAllPairs) {
  for (const int n : {1, 2, 3, 4, 7, 8, 13}) {
    for (int rank = 0; rank < n; ++rank) {
      const schedules::Teams teams = schedules::consecutive_teams(n, 3);
      for (const Schedule& s :
           {schedules::ring(n, rank), schedules::butterfly(n, rank), schedules::halving_doubling(n, rank),
            schedules::tree(n, rank), schedules::star(n, rank), schedules::ordered(n, rank), schedules::shm(n, rank),
            schedules::naive(n, rank), schedules::hierarchical(teams, rank), schedules::shm_broadcast(n, rank, 0),
            schedules::pairwise_reduce_scatter(n, rank), schedules::hierarchical_allgather(teams, rank)}) {
        EXPECT_EQ(link_steps(s, n).waits, obvious_waits(s, n)) << "n " << n << " rank " << rank;
      }
    }
  }
}

// Every root of a small group, some of a large one.
std::vector<int> roots(int n) {
  if (n > 9) return {0, 1, n / 2, n - 1};
  std::vector<int> all;
  for (int root = 0; root < n; ++root) all.push_back(root);
  return all;
}

void prove_rooted(Goal (*goal)(int, int), Schedule (*generator)(int, int, int),
                  const std::function<Promise(int)>& promise) {
  for (int n = 1; n <= 64; ++n) {
    for (const int root : roots(n)) {
      prove(
          goal(n, root), [=](int rank) { return generator(n, rank, root); }, promise(n));
    }
  }
}

// ---- allreduce

TEST(NaiveSchedule, TakesNMinusOneRoundsOfTheWholeVector) {
  prove_allreduce(schedules::naive, [](int n) { return Promise{n - 1, n - 1.0, true}; });
}

TEST(RingSchedule, TakesTwiceNMinusOneRoundsOfAnNth) {
  prove_allreduce(schedules::ring, [](int n) { return Promise{2 * (n - 1), 2.0 * (n - 1) / n, n < 3}; });
}

TEST(ButterflySchedule, TakesLogRoundsOfTheWholeVectorAndUpToTwoMoreWithGuests) {
  prove_allreduce(schedules::butterfly, [](int n) {
    // A chain from one guest to another through all rounds exists if two hosts differ in every bit.
    const int p = power_below(n), guests = n - p, more = guests == 0 ? 0 : guests > p / 2 ? 2 : 1;
    return Promise{floor_log2(n) + more, floor_log2(n) + (guests > 0 ? 1.0 : 0.0), true};
  });
}

TEST(HalvingDoublingSchedule, TakesTwiceLogRoundsOfTheRingsBytesAndTwoMoreWithGuests) {
  prove_allreduce(schedules::halving_doubling, [](int n) {
    const double p = power_below(n);
    return Promise{2 * floor_log2(n) + (is_power(n) ? 0 : 2), 2 * (p - 1) / p + (is_power(n) ? 0 : 1), true};
  });
}

TEST(TreeSchedule, TakesTwiceLogRoundsOfTheWholeVector) {
  prove_allreduce(schedules::tree, [](int n) { return Promise{2 * floor_log2(n), 1.0 * ceil_log2(n), true}; });
}

TEST(StarSchedule, TakesTwoRoundsAndNMinusOneVectorsOutOfTheRoot) {
  prove_allreduce(schedules::star, [](int n) { return Promise{n > 1 ? 2 : 0, n - 1.0, true}; });
}

TEST(OrderedSchedule, TakesTwoRoundsOfTheRingsBytes) {
  prove_allreduce(schedules::ordered, [](int n) { return Promise{n > 1 ? 2 : 0, 2.0 * (n - 1) / n, true}; });
}

TEST(ShmSchedule, TakesTwoMeetingsAndSendsNothing) {
  prove_allreduce(schedules::shm, [](int n) { return Promise{n > 1 ? 2 : 0, 0, true}; });
}

// What leaves each team for others, in units of the output.
std::vector<double> leaving(const schedules::Teams& teams, const OfRank& schedule_of) {
  std::vector<double> sent(teams.size());
  for (std::size_t team = 0; team < teams.size(); ++team) {
    for (const int rank : teams[team]) {
      const Schedule schedule = schedule_of(rank);
      for (const Step& step : schedule.steps) {
        const bool inside = std::find(teams[team].begin(), teams[team].end(), step.peer) != teams[team].end();
        if (step.action == Action::send && !inside) sent[team] += 1.0 * step.what.count / schedule.blocks;
      }
    }
  }
  return sent;
}

struct Sizes {
  int smallest = 1;
  int largest = 1;
};
Sizes sizes_of(const schedules::Teams& teams) {
  Sizes sizes{1 << 30, 0};
  for (const auto& team : teams) {
    sizes.smallest = std::min(sizes.smallest, static_cast<int>(team.size()));
    sizes.largest = std::max(sizes.largest, static_cast<int>(team.size()));
  }
  return sizes;
}

void prove_hierarchical_allreduce(int n, const schedules::Teams& teams) {
  const OfRank schedule_of = [&](int rank) { return schedules::hierarchical(teams, rank); };
  const int t = static_cast<int>(teams.size());
  const auto [lanes, largest] = sizes_of(teams);
  const double carrier = (lanes - 1.0 + largest - 1.0 + 2.0 * (t - 1) / t) / lanes;
  const bool bits_of_blocks = t < 3 && (lanes == 1 || largest <= 2);
  const double most = largest > lanes ? std::max(carrier, 1.0) : carrier;
  prove(goals::allreduce(n), schedule_of, {2 * (t - 1) + (largest > 1 ? 2 : 0), most, bits_of_blocks});
  for (const double sent : leaving(teams, schedule_of)) EXPECT_NEAR(sent, 2.0 * (t - 1) / t, 1e-9);
}

std::vector<schedules::Teams> some_teams(int n) {
  std::set<int> widths = {std::max(1, static_cast<int>(std::lround(std::sqrt(n)))), 8};
  if (n <= 16) widths.insert({1, 2, 3, n});
  std::vector<schedules::Teams> all;
  for (const int width : widths) all.push_back(schedules::consecutive_teams(n, width));
  return all;
}

const schedules::Teams kOddTeams = {{6, 0, 3}, {1}, {5, 2, 4, 7, 8}};

TEST(HierarchicalSchedule, TakesTheRingBetweenTeamsAndOneRoundInsideBeforeAndAfter) {
  for (int n = 1; n <= 64; ++n) {
    for (const auto& teams : some_teams(n)) prove_hierarchical_allreduce(n, teams);
  }
  prove_hierarchical_allreduce(9, kOddTeams);
  prove_hierarchical_allreduce(6, {{0, 2, 4}, {1, 3, 5}});
}

TEST(HierarchicalSchedule, GathersWithEveryBlockEnteringEveryTeamOnce) {
  const auto prove_one = [](int n, const schedules::Teams& teams) {
    const OfRank schedule_of = [&](int rank) { return schedules::hierarchical_allgather(teams, rank); };
    const Verdict verdict = verify(goals::allgather(n), [&](int rank) { return link_steps(schedule_of(rank), n); });
    for (const std::string& finding : verdict.findings) ADD_FAILURE() << finding;
    const std::vector<double> sent = leaving(teams, schedule_of);
    for (std::size_t team = 0; team < teams.size(); ++team) {
      const double own = static_cast<double>(teams[team].size()) / n;
      EXPECT_NEAR(sent[team], own * static_cast<double>(teams.size() - 1), 1e-9);
    }
  };
  for (int n = 1; n <= 40; ++n) {
    for (const auto& teams : some_teams(n)) prove_one(n, teams);
  }
  prove_one(9, kOddTeams);
}

TEST(HierarchicalSchedule, BroadcastsIntoEveryTeamOnce) {
  const auto prove_one = [](int n, const schedules::Teams& teams, int root) {
    const OfRank schedule_of = [&](int rank) { return schedules::hierarchical_broadcast(teams, rank, root); };
    const Verdict verdict =
        verify(goals::broadcast(n, root), [&](int rank) { return link_steps(schedule_of(rank), n); });
    for (const std::string& finding : verdict.findings) ADD_FAILURE() << finding;
    double all = 0;
    for (const double sent : leaving(teams, schedule_of)) all += sent;
    EXPECT_NEAR(all, static_cast<double>(teams.size() - 1), 1e-9);
  };
  for (int n = 1; n <= 40; ++n) {
    for (const auto& teams : some_teams(n)) {
      for (const int root : roots(n)) prove_one(n, teams, root);
    }
  }
  for (int root = 0; root < 9; ++root) prove_one(9, kOddTeams, root);
}

TEST(TeamsByHost, KeepsTheOrderOfHostsAndRanks) {
  EXPECT_EQ(schedules::teams_by_host({7, 7, 3, 7, 3}), (schedules::Teams{{0, 1, 3}, {2, 4}}));
  EXPECT_TRUE(schedules::teams_by_host({}).empty());
}

TEST(OrderedAndShm, AddInTheSameOrder) {
  // One symbol for both: what ordered leaves in a block and what direct makes of it are the same expression exactly if
  // a schedule that does one on some ranks' blocks and the other on the rest has the same bits in all of them.
  for (int n = 2; n <= 9; ++n) {
    const Verdict verdict = verify(goals::allreduce(n), [n](int rank) {
      Schedule s{.blocks = n, .scratch_copies = n};
      for (int hop = 1; hop < n; ++hop) {  // block 0 goes `ordered`'s way
        if (rank == 0) s.receive(hop, {Buffer::scratch, hop * n, 1});
        if (rank == hop) s.send(0, output(0));
      }
      if (rank == 0) s.fold(output(0), output(0));
      for (int hop = 1; hop < n; ++hop) {
        if (rank == 0) s.send(hop, output(0));
        if (rank == hop) s.receive(0, output(0));
      }
      s.meet();
      if (rank != 0) s.direct(output(rank));
      s.meet();
      return link_steps(s, n);
    });
    for (const std::string& finding : verdict.findings) ADD_FAILURE() << finding;
    EXPECT_TRUE(verdict.same_bits_in_all_blocks);
  }
}

// ---- the others

void prove_all(Goal (*goal)(int), Schedule (*generator)(int, int), const std::function<Promise(int)>& promise) {
  for (int n = 1; n <= 64; ++n) {
    prove(
        goal(n), [=](int rank) { return generator(n, rank); }, promise(n));
  }
}

TEST(AllgatherSchedules, SendAllButAnNthOfTheVector) {
  prove_all(goals::allgather, schedules::ring_allgather, [](int n) { return Promise{n - 1, (n - 1.0) / n}; });
  prove_all(goals::allgather, schedules::pairwise_allgather, [](int n) {
    return Promise{n > 1 ? 1 : 0, (n - 1.0) / n};
  });
  prove_all(goals::allgather, schedules::shm_allgather, [](int n) { return Promise{n > 1 ? 2 : 0, 0}; });
}

TEST(ReduceScatterSchedule, SendsEveryOtherRankItsBlockInOneRound) {
  prove_all(goals::reduce_scatter, schedules::pairwise_reduce_scatter, [](int n) {
    return Promise{n > 1 ? 1 : 0, n - 1.0};
  });
}

TEST(AlltoallSchedule, SendsEveryOtherRankItsBlockInOneRound) {
  prove_all(goals::alltoall, schedules::pairwise_alltoall, [](int n) { return Promise{n > 1 ? 1 : 0, (n - 1.0) / n}; });
}

TEST(BarrierSchedule, TakesLogRounds) {
  prove_all(goals::barrier, schedules::dissemination_barrier, [](int n) {
    return Promise{ceil_log2(n), ceil_log2(n) / (ceil_log2(n) + 1.0)};  // blocks of nothing
  });
}

TEST(BroadcastSchedules, ReachEveryRankFromEveryRoot) {
  prove_rooted(goals::broadcast, schedules::tree_broadcast, [](int n) {
    return Promise{floor_log2(n), 1.0 * ceil_log2(n)};
  });
  prove_rooted(goals::broadcast, schedules::chain_broadcast, [](int n) { return Promise{n - 1, n > 1 ? 1.0 : 0.0}; });
  prove_rooted(goals::broadcast, schedules::star_broadcast, [](int n) { return Promise{n > 1 ? 1 : 0, n - 1.0}; });
  prove_rooted(goals::broadcast, schedules::shm_broadcast, [](int n) { return Promise{n > 1 ? 2 : 0, 0}; });
}

TEST(ReduceSchedules, CountEveryRankOnceAndKeepTheOthersData) {
  prove_rooted(goals::reduce, schedules::tree_reduce, [](int n) { return Promise{floor_log2(n), n > 1 ? 1.0 : 0.0}; });
  prove_rooted(goals::reduce, schedules::star_reduce, [](int n) { return Promise{n > 1 ? 1 : 0, n > 1 ? 1.0 : 0.0}; });
}

TEST(GatherAndScatterSchedules, TakeOneRound) {
  prove_rooted(goals::gather, schedules::star_gather, [](int n) {
    return Promise{n > 1 ? 1 : 0, n > 1 ? 1.0 / n : 0};
  });
  prove_rooted(goals::scatter, schedules::star_scatter, [](int n) { return Promise{n > 1 ? 1 : 0, n - 1.0}; });
}

void prove_neighbours(const std::vector<std::vector<int>>& lists) {
  const auto some = [](const std::vector<int>& list) { return !list.empty(); };
  const double any = std::any_of(lists.begin(), lists.end(), some) ? 1 : 0;  // each sends its whole input
  const auto schedule_of = [&](int rank) { return schedules::neighbours(lists[static_cast<std::size_t>(rank)]); };
  prove(goals::neighbours(lists), schedule_of, {static_cast<int>(any), any});
}

TEST(NeighbourSchedule, WorksOnRings) {
  for (int n = 2; n <= 64; ++n) {
    std::vector<std::vector<int>> ring;
    for (int rank = 0; rank < n; ++rank) ring.push_back({(rank + n - 1) % n, (rank + 1) % n});
    prove_neighbours(ring);  // n = 2: the same neighbour twice
  }
}

TEST(NeighbourSchedule, WorksOnRandomGraphs) {
  for (int n = 1; n <= 64; ++n) {
    Random random(7, static_cast<std::uint64_t>(n));
    std::vector<std::vector<int>> graph(static_cast<std::size_t>(n));
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < a; ++b) {
        if (random.below(4) != 0) continue;
        graph[static_cast<std::size_t>(a)].push_back(b);
        graph[static_cast<std::size_t>(b)].push_back(a);
      }
    }
    for (auto& list : graph) std::shuffle(list.begin(), list.end(), random);
    prove_neighbours(graph);
  }
}

}  // namespace
}  // namespace paceline
