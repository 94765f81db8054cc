#include "paceline/collective/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "paceline/collective/schedules.hpp"

namespace paceline {
namespace {

// A correct algorithm with one thing changed, on one rank or on all: the verifier must find it, and say what it is.
using Change = std::function<void(int rank, Schedule&)>;
using Generator = Schedule (*)(int n, int rank);

Verdict verify_changed(const Goal& goal, const std::function<Schedule(int)>& generator, const Change& before_linking,
                       const Change& after_linking = {}) {
  return verify(goal, [&](int rank) {
    Schedule s = generator(rank);
    if (before_linking) before_linking(rank, s);
    s = link_steps(s, goal.ranks);
    if (after_linking) after_linking(rank, s);
    return s;
  });
}

Verdict verify_changed(Generator generator, int n, const Change& before_linking, const Change& after_linking = {}) {
  return verify_changed(
      goals::allreduce(n), [=](int rank) { return generator(n, rank); }, before_linking, after_linking);
}

void expect_finding(const Verdict& verdict, const std::string& part) {
  for (const std::string& finding : verdict.findings) {
    if (finding.find(part) != std::string::npos) return;
  }
  std::string all;
  for (const std::string& finding : verdict.findings) all += "\n  " + finding;
  ADD_FAILURE() << "no finding has '" << part << "'; there are " << verdict.findings.size() << all;
}

Change on_rank(int which, const std::function<void(Schedule&)>& change) {
  return [=](int rank, Schedule& s) {
    if (rank == which) change(s);
  };
}

void drop(Schedule& s, Action action) {
  const auto same = [=](const Step& step) { return step.action == action; };
  s.steps.erase(std::find_if(s.steps.begin(), s.steps.end(), same));
}

TEST(Verifier, AcceptsACorrectSchedule) { EXPECT_TRUE(verify_changed(schedules::ring, 5, {}).findings.empty()); }

TEST(Verifier, NamesCollectiveRanksRankAndStep) {
  const Verdict verdict = verify_changed(schedules::ring, 4, on_rank(2, [](Schedule& s) { drop(s, Action::send); }));
  expect_finding(verdict, "allreduce, n = 4, rank 3, step ");
}

TEST(Verifier, FindsEverySingleStepThatIsMissing) {
  for (const Generator generator :
       {schedules::naive, schedules::ring, schedules::butterfly, schedules::halving_doubling, schedules::tree,
        schedules::star, schedules::ordered, schedules::shm}) {
    for (int n = 2; n <= 6; ++n) {
      for (int rank = 0; rank < n; ++rank) {
        for (std::size_t i = 0; i < generator(n, rank).steps.size(); ++i) {
          const Verdict verdict = verify_changed(generator, n, on_rank(rank, [i](Schedule& s) {
                                                   s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(i));
                                                 }));
          EXPECT_FALSE(verdict.findings.empty()) << "n " << n << " rank " << rank << " step " << i;
        }
      }
    }
  }
}

TEST(Verifier, FindsEverySingleWaitThatIsMissing) {
  for (const Generator generator :
       {schedules::naive, schedules::ring, schedules::butterfly, schedules::halving_doubling, schedules::tree,
        schedules::star, schedules::ordered}) {
    const int n = 5;
    for (int rank = 0; rank < n; ++rank) {
      const Schedule whole = link_steps(generator(n, rank), n);
      for (std::size_t i = 0; i < whole.waits.size(); ++i) {
        for (std::size_t w = 0; w < whole.waits[i].size(); ++w) {
          // A wait that an earlier step has waited for already changes nothing.
          const int target = whole.waits[i][w];
          const auto end = whole.waits.begin() + static_cast<std::ptrdiff_t>(i);
          const bool waited = std::any_of(whole.waits.begin(), end, [=](const std::vector<int>& waits) {
            return std::find(waits.begin(), waits.end(), target) != waits.end();
          });
          const Verdict verdict =
              verify_changed(generator, n, {}, on_rank(rank, [=](Schedule& s) {
                               s.waits[i].erase(s.waits[i].begin() + static_cast<std::ptrdiff_t>(w));
                             }));
          EXPECT_EQ(verdict.findings.empty(), waited) << "rank " << rank << " step " << i << " wait " << target;
        }
      }
    }
  }
}

TEST(Verifier, FindsEverySingleBlockThatIsWrong) {
  for (const Generator generator : {schedules::ring, schedules::halving_doubling, schedules::ordered, schedules::shm}) {
    const int n = 4;
    for (int rank = 0; rank < n; ++rank) {
      const Schedule whole = generator(n, rank);
      for (std::size_t i = 0; i < whole.steps.size(); ++i) {
        if (whole.steps[i].action == Action::meet) continue;
        const Verdict verdict = verify_changed(
            generator, n, on_rank(rank, [i](Schedule& s) {
              Blocks& what = s.steps[i].what;
              what.first = what.first % s.blocks + what.count < s.blocks ? what.first + 1 : what.first - 1;
            }));
        EXPECT_FALSE(verdict.findings.empty()) << "rank " << rank << " step " << i;
      }
    }
  }
}

TEST(Verifier, FindsPeersThatAreSwapped) {
  for (const Generator generator :
       {schedules::ring, schedules::halving_doubling, schedules::butterfly, schedules::ordered}) {
    const Verdict verdict = verify_changed(generator, 4, on_rank(1, [](Schedule& s) {
                                             std::swap(s.steps[0].peer, s.steps[2].peer);
                                             if (s.steps[0].peer == s.steps[2].peer)
                                               s.steps[0].peer =
                                                   (s.steps[0].peer + 1) % 4 == 1 ? 2 : (s.steps[0].peer + 1) % 4;
                                           }));
    EXPECT_FALSE(verdict.findings.empty());
  }
}

TEST(Verifier, FindsAPeerThatDoesNotExist) {
  expect_finding(verify_changed(schedules::ring, 3, on_rank(1, [](Schedule& s) { s.steps[0].peer = 3; })),
                 "rank 3 is not another rank");
  expect_finding(verify_changed(schedules::ring, 3, on_rank(1, [](Schedule& s) { s.steps[0].peer = 1; })),
                 "rank 1 is not another rank");
}

TEST(Verifier, FindsStepsInTheWrongOrder) {
  // The ring's reduced block sent on before it was reduced.
  const Verdict verdict =
      verify_changed(schedules::ring, 4, on_rank(1, [](Schedule& s) { std::swap(s.steps[1], s.steps[2]); }));
  expect_finding(verdict, "does not hold every rank's part once");
}

TEST(Verifier, FindsASumThatIsNotFinished) {
  for (const Generator generator :
       {schedules::ring, schedules::butterfly, schedules::halving_doubling, schedules::tree, schedules::star}) {
    expect_finding(verify_changed(generator, 4, on_rank(0, [](Schedule& s) { drop(s, Action::finish); })),
                   "a sum that is not finished");
  }
}

TEST(Verifier, FindsASumThatIsFinishedTwice) {
  expect_finding(verify_changed(schedules::star, 3, on_rank(0, [](Schedule& s) { s.finish(output(0)); })),
                 "for the second time");
  expect_finding(verify_changed(schedules::ordered, 3, on_rank(1, [](Schedule& s) { s.finish(output(2)); })),
                 "for the second time");
}

TEST(Verifier, FindsASumThatGoesOnAfterItWasFinished) {
  const Change early = on_rank(0, [](Schedule& s) {
    s.steps.insert(s.steps.begin() + 1, Step{Action::finish, -1, output(0), {}, false});
  });
  expect_finding(verify_changed(schedules::star, 4, early), "adds to a sum that is finished");
}

TEST(Verifier, FindsARankThatCountsTwice) {
  const Change again = [](int rank, Schedule& s) {
    if (rank == 1) s.steps.insert(s.steps.begin(), Step{Action::send, 0, output(0), {}, false});
    if (rank == 0) s.steps.insert(s.steps.begin(), Step{Action::reduce, 1, output(0), {}, false});
  };
  expect_finding(verify_changed(schedules::star, 3, again), "does not hold every rank's part once");
}

// What goes wrong when both sides of a butterfly's exchange add into the block that they send.
Schedule butterfly_without_scratch(int n, int rank) {
  Schedule s{.blocks = 1};
  for (int distance = 1; distance < n; distance *= 2) {
    s.send(rank ^ distance, output(0));
    s.reduce(rank ^ distance, output(0));
  }
  s.finish(output(0));
  return s;
}

TEST(Verifier, FindsADeadlockThatBuffersWouldHide) {
  expect_finding(verify_changed(butterfly_without_scratch, 4, {}), "it waits for ever");
}

TEST(Verifier, FindsAHazardWhereWaitsWereLeftOutToAvoidTheDeadlock) {
  const Change no_waits = [](int, Schedule& s) { s.waits.assign(s.steps.size(), {}); };
  expect_finding(verify_changed(butterfly_without_scratch, 4, {}, no_waits),
                 "it can be issued while step 0 still needs the same block");
}

TEST(Verifier, FindsACircleOfReceivesBeforeSends) {
  const auto circle = [](int rank) {
    Schedule s{.blocks = 3};
    for (int hop = 1; hop < 3; ++hop) {
      const int from = (rank + 3 - hop) % 3;
      s.receive(from, output(from));
      s.move(output(from), output(from));  // waits for the receive
      s.send((rank + hop) % 3, output(rank));
    }
    return s;
  };
  expect_finding(verify_changed(goals::allgather(3), circle, {}), "it waits for ever");
}

TEST(Verifier, FindsMessagesThatDoNotPairUp) {
  expect_finding(verify_changed(schedules::star, 3, on_rank(2, [](Schedule& s) { s.send(1, output(0)); })),
                 "nobody receives it");
  expect_finding(verify_changed(schedules::star, 3, on_rank(2, [](Schedule& s) { s.receive(1, output(0)); })),
                 "nobody sends it");
  const Change longer = on_rank(0, [](Schedule& s) { s.steps[0].what = output(0, 2); });
  expect_finding(verify_changed(schedules::ring, 3, longer), "the message has 2 blocks");
}

TEST(Verifier, FindsBlocksThatDoNotExist) {
  expect_finding(verify_changed(schedules::butterfly, 4, [](int, Schedule& s) { s.scratch_copies = 0; }),
                 "a block that does not exist, of 0");
  expect_finding(verify_changed(schedules::ordered, 4, [](int, Schedule& s) { s.scratch_copies = 3; }),
                 "a block that does not exist, of 12");
}

TEST(Verifier, FindsVectorsThatAreCutDifferently) {
  expect_finding(verify_changed(schedules::star, 3, on_rank(1, [](Schedule& s) { s.blocks = 2; })),
                 "it cuts the vector into 2 blocks, rank 0 into 1");
}

TEST(Verifier, FindsABlockInAPlaceOfAnotherSize) {
  const auto through_another_block = [](int rank) {
    Schedule s{.blocks = 2, .scratch_copies = 1};
    s.move({Buffer::scratch, 1, 1}, output(rank));
    s.send(1 - rank, {Buffer::scratch, 1, 1});
    s.receive(1 - rank, output(1 - rank));
    return s;
  };
  Goal goal = goals::allgather(2);
  goal.vector = true;
  expect_finding(verify_changed(goal, through_another_block, {}), "a block of another size comes in");
}

TEST(Verifier, FindsAnInputThatIsChanged) {
  const auto generator = [](int rank) { return schedules::pairwise_alltoall(3, rank); };
  const Change overwrite = on_rank(1, [](Schedule& s) { s.move(input(0), output(0)); });
  expect_finding(verify_changed(goals::alltoall(3), generator, overwrite), "it changes the input");
}

TEST(Verifier, FindsDataThatAReduceShouldHaveKept) {
  const auto in_place = [](int rank) {
    Schedule s;
    if (rank == 1) s.reduce(2, output(0));
    if (rank == 2) s.send(1, output(0));
    if (rank == 1) s.send(0, output(0));
    if (rank == 0) s.reduce(1, output(0));
    if (rank == 0) s.finish(output(0));
    return s;
  };
  expect_finding(verify_changed(goals::reduce(3, 0), in_place, {}), "does not hold what it held before");
}

TEST(Verifier, FindsScratchThatNobodyWrote) {
  const Change into_own_copy = on_rank(1, [](Schedule& s) { s.steps[1].what.first = 1; });
  expect_finding(verify_changed(schedules::naive, 5, into_own_copy), "it adds what nobody has written");
}

TEST(Verifier, FindsMappedMemoryThatNoMeetingProtects) {
  for (const bool first : {true, false}) {
    const Change skip = [first](int, Schedule& s) { s.steps.erase(first ? s.steps.begin() : s.steps.end() - 1); };
    expect_finding(verify_changed(schedules::shm, 3, skip), "no meeting separates it from what rank");
    const auto broadcast = [](int rank) { return schedules::shm_broadcast(3, rank, 1); };
    expect_finding(verify_changed(goals::broadcast(3, 1), broadcast, skip),
                   "no meeting separates it from what rank 1's caller");
  }
}

TEST(Verifier, FindsTwoRanksAtOneMappedBlock) {
  const Change same = on_rank(2, [](Schedule& s) { s.steps[1].what = output(0); });
  expect_finding(verify_changed(schedules::shm, 3, same), "no meeting separates it from step 1 of rank");
}

TEST(Verifier, FindsAMessageUnderWayInAMappedBlock) {
  // Rank 1's send of its block may still be reading when rank 0 writes there.
  const Change send_across = [](int rank, Schedule& s) {
    s.scratch_copies = 1;
    if (rank == 1) s.steps.insert(s.steps.begin(), Step{Action::send, 0, output(0), {}, false});
    if (rank == 0) s.receive(1, {Buffer::scratch, 0, 1});
  };
  const Change no_fence = on_rank(1, [](Schedule& s) { s.waits.assign(s.steps.size(), {}); });
  expect_finding(verify_changed(schedules::shm, 3, send_across, no_fence),
                 "no meeting separates it from step 0 of rank 1");
}

TEST(Verifier, FindsMeetingsThatNotAllAttend) {
  expect_finding(verify_changed(schedules::shm, 3, on_rank(1, [](Schedule& s) { s.meet(); })),
                 "it meets 3 times, rank 0 2 times");
}

TEST(Verifier, FindsABarrierThatOneCanSlipThrough) {
  const auto generator = [](int rank) { return schedules::dissemination_barrier(5, rank); };
  const Change one_round_less = [](int, Schedule& s) { s.steps.resize(s.steps.size() - 2); };
  expect_finding(verify_changed(goals::barrier(5), generator, one_round_less), "it is done before rank");
  // All rounds at once: nobody passes on what came in.
  const Change no_waits = [](int, Schedule& s) { s.waits.assign(s.steps.size(), {}); };
  expect_finding(verify_changed(goals::barrier(5), generator, {}, no_waits), "it can be issued while step");
}

TEST(Verifier, FindsABarrierThatNeedsBuffers) {
  const auto one_block = [](int rank) {
    Schedule s;
    for (int distance = 1; distance < 4; distance *= 2) {
      s.send((rank + distance) % 4, output(0));
      s.receive((rank + 4 - distance) % 4, output(0));
    }
    return s;
  };
  expect_finding(verify_changed(goals::barrier(4), one_block, {}), "it waits for ever");
}

TEST(Verifier, FindsSchedulesThatAreNotLinked) {
  expect_finding(verify(goals::allreduce(2), [](int rank) { return schedules::ring(2, rank); }),
                 "the schedule is not linked");
}

TEST(Verifier, SeesWhereTheBitsDependOnTheRankOrOnTheBlock) {
  // Each rank adds the others' vectors to its own, in whatever order they come: sums with different brackets.
  const auto all_to_all = [](int rank) {
    Schedule s{.blocks = 1, .scratch_copies = 1};
    s.move({Buffer::scratch, 0, 1}, output(0));
    for (int hop = 1; hop < 4; ++hop) {
      s.send((rank + hop) % 4, {Buffer::scratch, 0, 1});
      s.reduce((rank + 4 - hop) % 4, output(0));
    }
    s.finish(output(0));
    return s;
  };
  const Verdict verdict = verify_changed(goals::allreduce(4), all_to_all, {});
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_FALSE(verdict.same_bits_on_all_ranks);
  EXPECT_FALSE(verify_changed(schedules::ring, 4, {}).same_bits_in_all_blocks);
  EXPECT_TRUE(verify_changed(schedules::ordered, 4, {}).same_bits_in_all_blocks);
}

}  // namespace
}  // namespace paceline
