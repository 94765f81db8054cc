#include "paceline/collective/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "paceline/collective/verify.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr Collective kPlanned[] = {Collective::allreduce,  Collective::reduce_scatter, Collective::allgather,
                                   Collective::allgatherv, Collective::broadcast,      Collective::reduce,
                                   Collective::gather,     Collective::scatter,        Collective::alltoall,
                                   Collective::alltoallv,  Collective::barrier};

Planner planner(int ranks, int index, bool mapped = false) {
  return Planner({.ranks = ranks, .index = index, .cores = ranks, .mapped_memory = mapped});
}

Algorithm choose(Planner planner, std::size_t bytes) {
  return planner.resolve(Collective::allreduce, Algorithm::automatic, bytes);
}

TEST(Planner, ChoosesTheSameOnEveryIndex) {
  for (const bool mapped : {false, true}) {
    for (const int n : {1, 2, 3, 8, 13}) {
      for (const Collective op : kPlanned) {
        for (std::size_t bytes :
             {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1} << 16, std::size_t{1} << 26}) {
          std::set<Algorithm> chosen;
          for (int index = 0; index < n; ++index)
            chosen.insert(planner(n, index, mapped).resolve(op, Algorithm::automatic, bytes));
          EXPECT_EQ(chosen.size(), 1U) << name(op) << " of " << bytes << " bytes among " << n;
          EXPECT_NE(*chosen.begin(), Algorithm::automatic);
        }
      }
    }
  }
}

TEST(Planner, ChoosesFewRoundsForShortVectorsAndFewBytesForLongOnes) {
  EXPECT_EQ(choose(planner(8, 0), 8), Algorithm::butterfly);
  const Algorithm large = choose(planner(8, 0), 64 << 20);
  EXPECT_TRUE(large == Algorithm::ring || large == Algorithm::halving_doubling) << name(large);
}

TEST(Planner, ChoosesMappedMemoryForLongVectorsOnOneHost) {
  EXPECT_EQ(choose(planner(2, 0, true), 64 << 20), Algorithm::shm);
}

TEST(Planner, NeverFallsBackToMappedMemory) {
  for (const Collective op : {Collective::allreduce, Collective::allgather, Collective::broadcast}) {
    for (int power = 0; power < 30; ++power) {
      EXPECT_NE(planner(4, 1, true).without_mapping(op, std::size_t{1} << power), Algorithm::shm);
    }
  }
}

TEST(Planner, TakesWhatIsAskedFor) {
  Planner p = planner(4, 2, true);
  for (const Collective op : kPlanned) {
    for (const Algorithm algorithm : algorithms_of(op)) EXPECT_EQ(p.resolve(op, algorithm, 100), algorithm);
  }
}

void expect_refused(Planner p, Collective op, Algorithm asked, const std::string& part) {
  try {
    p.resolve(op, asked, 100);
    ADD_FAILURE() << "accepted " << name(asked);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Planner, RefusesAnAlgorithmThatTheOperationDoesNotHaveAndNamesThoseItHas) {
  expect_refused(planner(4, 0), Collective::broadcast, Algorithm::butterfly,
                 "broadcast has no algorithm 'butterfly'; it has shm, chain, tree, star, hierarchical");
  expect_refused(planner(4, 0), Collective::allreduce, Algorithm::chain, "halving-doubling");
  expect_refused(planner(4, 0), Collective::barrier, Algorithm::ring, "it has dissemination");
}

TEST(Planner, RefusesMappedMemoryAcrossHosts) {
  expect_refused(planner(4, 0, false), Collective::allreduce, Algorithm::shm, "needs all ranks on one host");
}

// What it hands out is linked, made once, and the schedule of its own index.
TEST(Planner, HandsOutTheScheduleOfItsIndex) {
  Planner p = planner(5, 3);
  const Schedule& schedule = p.schedule(Collective::broadcast, Algorithm::tree, 2);
  EXPECT_EQ(&schedule, &p.schedule(Collective::broadcast, Algorithm::tree, 2));
  EXPECT_EQ(schedule.waits.size(), schedule.steps.size());
  p.schedule(Collective::broadcast, Algorithm::tree, 4);  // and stays where it is when others come
  EXPECT_EQ(&schedule, &p.schedule(Collective::broadcast, Algorithm::tree, 2));
  const Verdict verdict = verify(goals::broadcast(5, 2), [](int rank) {
    return planner(5, rank).schedule(Collective::broadcast, Algorithm::tree, 2);
  });
  EXPECT_TRUE(verdict.findings.empty());
}

TEST(Planner, EveryAllreduceThatItKnowsIsProven) {
  for (const int n : {1, 2, 5, 16}) {
    for (const Algorithm algorithm : algorithms_of(Collective::allreduce)) {
      const Verdict verdict = verify(goals::allreduce(n), [&](int rank) {
        return planner(n, rank, true).schedule(Collective::allreduce, algorithm, 0);
      });
      for (const std::string& finding : verdict.findings) ADD_FAILURE() << name(algorithm) << ": " << finding;
    }
  }
}

TEST(Planner, FormsTeamsOfTheAskedWidth) {
  const Planner p({.ranks = 12, .index = 0, .cores = 12, .mapped_memory = false, .team_width = 4});
  EXPECT_EQ(p.schedule_of(Collective::allreduce, Algorithm::hierarchical, 0, 0).blocks, 12);
  EXPECT_EQ(planner(16, 0).schedule_of(Collective::allreduce, Algorithm::hierarchical, 0, 0).blocks, 16);
}

int crossings(const Schedule& schedule, const std::vector<int>& hosts, int index) {
  return static_cast<int>(std::count_if(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) {
    return step.action == Action::send &&
           hosts[static_cast<std::size_t>(step.peer)] != hosts[static_cast<std::size_t>(index)];
  }));
}

// Ranks dealt out to two hosts by turns: a ring or a chain in rank order would cross at every step.
TEST(Planner, RingsAndChainsEnterEveryHostOnce) {
  const std::vector<int> hosts = {0, 1, 0, 1, 0, 1};
  const auto of = [&](int index) { return Planner({.ranks = 6, .index = index, .cores = 6, .hosts = hosts}); };
  int ring = 0, chain = 0;
  for (int index = 0; index < 6; ++index) {
    ring += crossings(of(index).schedule_of(Collective::allreduce, Algorithm::ring, 0, index), hosts, index);
    chain += crossings(of(index).schedule_of(Collective::broadcast, Algorithm::chain, 3, index), hosts, index);
  }
  EXPECT_EQ(ring, 2 * 2 * 5);  // two of six ranks cross, in each of 2(n-1) rounds
  EXPECT_EQ(chain, 1);
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::hierarchical}) {
    const Verdict verdict = verify(goals::allreduce(6), [&](int rank) {
      return Schedule(of(rank).schedule(Collective::allreduce, algorithm, 0));
    });
    for (const std::string& finding : verdict.findings) ADD_FAILURE() << name(algorithm) << ": " << finding;
  }
}

// Between two hosts butterfly sends as many bytes as the others, in fewer rounds, but adds up twice as much.
TEST(Planner, BetweenTwoHostsButterflyIsForShortVectors) {
  Planner planner({.ranks = 2, .index = 0, .cores = 8, .hosts = {0, 1}});
  EXPECT_EQ(planner.resolve(Collective::allreduce, Algorithm::automatic, 64 << 10), Algorithm::butterfly);
  for (const std::size_t bytes : {1 << 20, 4 << 20, 64 << 20})
    EXPECT_NE(planner.resolve(Collective::allreduce, Algorithm::automatic, bytes), Algorithm::butterfly) << bytes;
}

TEST(Planner, TakesTheHierarchyWhereRanksShareTheLinksOfHosts) {
  Planner shared({.ranks = 8, .index = 0, .cores = 8, .hosts = {0, 0, 0, 0, 1, 1, 1, 1}});
  EXPECT_EQ(shared.resolve(Collective::allreduce, Algorithm::automatic, 64 << 20), Algorithm::hierarchical);
  Planner alone({.ranks = 4, .index = 0, .cores = 8, .hosts = {0, 1, 2, 3}});
  EXPECT_NE(alone.resolve(Collective::allreduce, Algorithm::automatic, 64 << 20), Algorithm::hierarchical);
}

}  // namespace
}  // namespace paceline
