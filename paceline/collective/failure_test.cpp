// What goes wrong between ranks that all live: different operations, dropped handles, deadlines, late ones, leavers. On
// threads, on shared memory, in the simulator and, in a program of its own, between hosts, with the same code. Deaths
// are in tests/process/kill_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "paceline/collective/collective_test_support.hpp"
#include "paceline/collective/mismatch_test_support.hpp"
#include "paceline/collective/test_backends.hpp"

namespace paceline {
namespace {

using namespace collective_test;
using std::chrono::milliseconds;

class Failure : public testing::TestWithParam<Backend> {
 protected:
  void run(int n, const Body& body) const { GetParam().run(n, body); }
};
INSTANTIATE_TEST_SUITE_P(On, Failure, testing::ValuesIn(backends()),
                         [](const auto& which) { return std::string(which.param.name); });

class Disagreement : public testing::TestWithParam<std::tuple<Backend, Mismatch>> {};
INSTANTIATE_TEST_SUITE_P(On, Disagreement,
                         testing::Combine(testing::ValuesIn(backends()), testing::ValuesIn(all_mismatches())),
                         [](const auto& which) {
                           return std::string(std::get<0>(which.param).name) + std::get<1>(which.param).name;
                         });

TEST_P(Disagreement, IsAnErrorOnEveryRankAndThenOver) {
  const auto& [backend, mismatch] = GetParam();
  for (const int n : {2, 3, 5}) {
    for (const int odd : {1, n - 1}) expect_mismatch(backend.run, n, odd, mismatch);
  }
}

// ---- outstanding handles

TEST_P(Failure, EveryOutstandingHandleFailsWithTheGroup) {
  run(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> a(50'000), b(50'000), c(50'000), d(10);
    std::vector<Handle> handles;
    // Where others were faster to break the group, a call throws what its handle would have.
    std::vector<std::optional<Error>> errors;
    errors.push_back(
        error_of([&] { handles.push_back(world.start_allreduce(view(a), ReduceOp::sum, {.name = "first"})); }));
    errors.push_back(error_of([&] {
      if (endpoint.rank() == 2) {
        handles.push_back(world.start_broadcast(view(d), 2, {.name = "odd one"}));
      } else {
        handles.push_back(
            world.start_allgather(view(std::span(b).first(10)), view(std::span(b).first(30)), {.name = "second"}));
      }
    }));
    errors.push_back(
        error_of([&] { handles.push_back(world.start_allreduce(view(c), ReduceOp::sum, {.name = "third"})); }));
    for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) {
      errors.push_back(error_of([&] { handle->wait(); }));
      EXPECT_TRUE(handle->test());
    }
    int failed = 0;
    for (const auto& error : errors) {
      if (!error) continue;
      EXPECT_EQ(error->code(), Code::mismatch) << error->what();
      ++failed;
    }
    EXPECT_GE(failed, 1) << "the third cannot have ended well";
    EXPECT_THROW(world.allreduce(view(a)), Error);
    handles.clear();
    Communicator next = world.recover();
    next.allreduce(view(a));
  });
}

TEST_P(Failure, ADroppedHandleIsAnErrorForTheOthersThatSaysWhoDroppedWhat) {
  run(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> x(100'000);
    if (endpoint.rank() == 1) {
      { Handle dropped = world.start_allreduce(view(x), ReduceOp::sum, {.name = "gradient"}); }
      const auto error = error_of([&] { world.barrier(); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::cancelled);
    } else {
      const auto error = error_of([&] { world.allreduce(view(x), ReduceOp::sum, {.name = "gradient"}); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::cancelled) << error->what();
      EXPECT_EQ(error->rank(), 1);
      EXPECT_TRUE(contains(error->what(), "rank 1") &&
                  contains(error->what(), "dropped the handle of allreduce #1 'gradient'"))
          << error->what();
    }
    world.recover().allreduce(view(x));
  });
}

// Boards remember a rank's last operations only.
TEST_P(Failure, ADisagreementIsFoundBehindManyLaterOperations) {
  run(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2));
    std::vector<float> x(10);
    std::vector<Handle> handles;
    handles.push_back(world.start_reduce(view(x), endpoint.rank()));  // each waits for the other
    std::vector<std::vector<float>> more(12, std::vector<float>(10));
    const auto error = error_of([&] {
      for (auto& one : more) handles.push_back(world.start_reduce(view(one), 0));
      handles.front().wait();
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::mismatch);
    handles.clear();
    world.recover().barrier();
  });
}

TEST_P(Failure, ADisagreementIsFoundByRanksThatOnlyTest) {
  run(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2));
    std::vector<float> x(10);
    Handle handle = world.start_reduce(view(x), endpoint.rank());
    const TimePoint end = endpoint.clock().after(std::chrono::seconds(1));
    while (!handle.test() && endpoint.clock().now() < end) {
    }
    ASSERT_TRUE(handle.test());
    const auto error = error_of([&] { handle.wait(); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::mismatch);
    world.recover().barrier();
  });
}

TEST_P(Failure, ARootThatRanFarAheadLearnsOfTheDisagreement) {
  run(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> x(10);
    const auto error = error_of([&] {
      if (endpoint.rank() == 0) {
        for (int i = 0; i < 20; ++i) world.broadcast(view(x), 0);
      }
      world.allreduce(view(x));
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::mismatch);
    EXPECT_TRUE(contains(error->what(), "allreduce #1")) << error->what();
    world.recover().allreduce(view(x));
  });
}

// A rank that only ever sends has no reason to wait for anybody, but must not go on for ever in a group that is broken.
TEST_P(Failure, ARankThatOnlySendsLearnsThatTheGroupIsBroken) {
  run(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> x(1), all(3);
    if (endpoint.rank() == 2) {
      const auto error = error_of([&] { world.barrier(); });
      ASSERT_TRUE(error);
    } else if (endpoint.rank() == 0) {
      const auto error = error_of([&] { world.gather(view(x), view(all), 0); });
      ASSERT_TRUE(error);
    } else {
      const TimePoint end = endpoint.clock().after(std::chrono::seconds(1));
      std::optional<Error> error;
      int calls = 0;
      while (!error && endpoint.clock().now() < end) {
        error = error_of([&] { world.gather(view(x), view(all), 0); });
        ++calls;
        const TimePoint computed = endpoint.clock().after(milliseconds(5));
        while (endpoint.clock().now() < computed) {
        }
      }
      ASSERT_TRUE(error) << calls << " operations in a broken group";
      EXPECT_EQ(error->code(), Code::mismatch);
    }
    world.recover().barrier();
  });
}

// ---- groups

TEST_P(Failure, GroupsThatDoNotHaveTheSameMembersAreADisagreement) {
  run(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, endpoint.rank() == 2 ? Group({0, 1, 2}, 0, 99) : Group({0, 1}, 0, 99));
    std::vector<float> x(10, 1.0f);
    if (endpoint.rank() < 2) {
      for (int i = 0; i < 3; ++i) world.allreduce(view(x));
      EXPECT_EQ(x[0], 8.0f);
    } else {
      const auto error =
          error_of([&] { world.allreduce(view(x), ReduceOp::sum, {.timeout = std::chrono::seconds(5)}); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::mismatch) << error->what();
    }
    // Nobody leaves before all have seen it.
    meet(endpoint, 1);
  });
}

TEST_P(Failure, AFailureStaysInItsGroup) {
  run(4, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(4));
    Communicator half = world.split(endpoint.rank() / 2, 0);
    std::vector<float> x(10, 1.0f);
    if (endpoint.rank() < 2) {
      EXPECT_THROW(half.reduce(view(x), half.rank()), Error);
    } else {
      half.allreduce(view(x));
    }
    world.barrier();
    if (endpoint.rank() < 2) half = half.recover();
    half.barrier();
    world.barrier();
  });
}

// Members who have seen the world fail do not come to the sub-group's operations any more.
TEST_P(Failure, AFailureOfTheWorldReachesItsSubGroups) {
  run(4, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(4));
    Communicator half = world.split(endpoint.rank() / 2, 0);
    Communicator own = half.split(0, 0);
    std::vector<float> x(10, 1.0f);
    if (endpoint.rank() == 0 || endpoint.rank() == 2) {
      const auto error = error_of([&] { world.reduce(view(x), endpoint.rank()); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::mismatch);
    } else {
      const auto error = error_of([&] { own.allreduce(view(x), ReduceOp::sum, {.timeout = std::chrono::seconds(5)}); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::mismatch) << error->what();
    }
    meet(endpoint, 1);
    world = world.recover();
    half = world.split(endpoint.rank() / 2, 0);
    half.allreduce(view(x));
    meet(endpoint, 2);
    if (endpoint.rank() >= 2) return;
    EXPECT_THROW(half.reduce(view(x), half.rank()), Error);
    // A recovered sub-group stands on its own.
    half = half.recover();
    half.allreduce(view(x));
  });
}

// A rank's later failures must not hide the earlier ones from members who have not looked yet.
TEST_P(Failure, FailuresOfSeveralGroupsAreAllSeenByALateMember) {
  run(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2));
    std::vector<Communicator> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(world.split(0, 0));
    std::vector<float> x(10);
    if (endpoint.rank() == 0) {
      for (Communicator& group : groups) {
        { Handle dropped = group.start_reduce(view(x), 0); }
        EXPECT_THROW(group.barrier(), Error);
      }
      endpoint.send(1, {5, 5}, {}).wait();
    } else {
      endpoint.receive(0, {5, 5}, std::span<std::byte>{}).wait();
      for (Communicator& group : groups) {
        const auto error =
            error_of([&] { group.allreduce(view(x), ReduceOp::sum, {.timeout = std::chrono::seconds(5)}); });
        ASSERT_TRUE(error);
        EXPECT_NE(error->code(), Code::timeout) << error->what();
      }
    }
    for (Communicator& group : groups) group.recover().barrier();
    world.barrier();
  });
}

TEST_P(Failure, AGroupRecoversAgainAndAgain) {
  run(4, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(4));
    for (std::uint32_t round = 0; round < 30; ++round) {
      std::vector<float> x(10, 1.0f);
      const bool odd = endpoint.rank() == static_cast<int>(round % 4);
      EXPECT_TRUE(error_of([&] {
        world.allreduce(view(x), odd ? ReduceOp::max : ReduceOp::sum);
        world.barrier();
      }));
      world = world.recover();
      EXPECT_EQ(world.group().epoch(), round + 1);
      // Every other time nothing lies between two failures.
      if (round % 2 != 0) continue;
      world.barrier();
      meet(endpoint, round);
    }
    std::vector<float> x(10, 1.0f);
    world.allreduce(view(x));
    EXPECT_EQ(x[0], 4.0f);
  });
}

TEST_P(Failure, ARecoveryThatNotAllCallInTimeCanBeCalledAgain) {
  run(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2));
    std::vector<float> x(10);
    EXPECT_THROW(world.reduce(view(x), endpoint.rank()), Error);
    if (endpoint.rank() == 0) {
      const auto error = error_of([&] { world.recover(milliseconds(50)); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::timeout);
      endpoint.send(1, {5, 5}, {}).wait();
    } else {
      endpoint.receive(0, {5, 5}, std::span<std::byte>{}).wait();
    }
    world.recover().barrier();
  });
}

TEST_P(Failure, ARecoveryThatSomebodyDoesNotCallSaysWhoIsMissing) {
  std::atomic<int> warnings = 0;
  run(3, [&](Endpoint& endpoint) {
    warnings = 0;
    std::string warning;
    Communicator world(endpoint, Group::world(3),
                       {.late_after = milliseconds(300), .warn = [&](const std::string& text) {
                          warning = text;
                          ++warnings;
                        }});
    std::vector<float> x(10);
    const auto error = error_of([&] { world.reduce(view(x), endpoint.rank()); });
    ASSERT_TRUE(error);
    if (endpoint.rank() == 2) {
      while (warnings == 0) endpoint.idle(endpoint.clock().after(milliseconds(1)));
    }
    world.recover().barrier();
    if (endpoint.rank() == 0) {
      EXPECT_TRUE(contains(warning, "recover") && contains(warning, "rank 2")) << warning;
    }
    EXPECT_EQ(warnings, 1);
  });
}

// ---- time

TEST_P(Failure, ADeadlineOfOneIsAnErrorOnAll) {
  run(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> x(1000);
    const TimePoint start = endpoint.clock().now();
    if (endpoint.rank() == 2) {
      // Late, and gets the Error when it comes.
      Pending told = endpoint.receive(0, {5, 5}, std::span<std::byte>{});
      told.wait();
      const auto error = error_of([&] {
        world.allreduce(view(x), ReduceOp::sum, {.name = "x"});
        world.barrier();
      });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::timeout);
    } else {
      const auto error = error_of([&] {
        world.allreduce(view(x), ReduceOp::sum,
                        {.name = "x", .timeout = milliseconds(endpoint.rank() == 0 ? 150 : 100'000)});
      });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::timeout);
      EXPECT_TRUE(contains(error->what(), "rank 0") && contains(error->what(), "allreduce #1 'x'")) << error->what();
      const bool alone = endpoint.rank() == 0;  // the others may have begun later
      EXPECT_GE(seconds(endpoint.clock().now() - start), alone ? 0.145 : 0.0);
      EXPECT_LT(seconds(endpoint.clock().now() - start), 1.0);
      if (endpoint.rank() == 0) endpoint.send(2, {5, 5}, {}).wait();
    }
    world.recover().allreduce(view(x));
  });
}

TEST_P(Failure, ADeadlinePassesForARankThatOnlyTests) {
  run(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2));
    std::vector<float> x(1000);
    if (endpoint.rank() == 0) {
      Handle handle = world.start_allreduce(view(x), ReduceOp::sum, {.timeout = milliseconds(100)});
      const TimePoint end = endpoint.clock().after(std::chrono::seconds(1));
      while (!handle.test() && endpoint.clock().now() < end) {
      }
      EXPECT_TRUE(handle.test());
      const auto error = handle.test() ? error_of([&] { handle.wait(); }) : std::nullopt;
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::timeout);
      endpoint.send(1, {5, 5}, {}).wait();
    } else {
      endpoint.receive(0, {5, 5}, std::span<std::byte>{}).wait();
      // What rank 0 sent before it gave up may be enough for the operation, but not for the next one.
      EXPECT_TRUE(error_of([&] {
        world.allreduce(view(x));
        world.barrier();
      }));
    }
    world.recover().barrier();
  });
}

// Once, by the lowest rank that waits: where time is exact. On a busy machine another one may take the lowest for
// stopped.
TEST_P(Failure, TheLowestRankThatWaitsWarnsOfOneThatIsLate) {
  std::atomic<int> warnings = 0;
  run(4, [&](Endpoint& endpoint) {
    warnings = 0;
    std::string first;  // of all ranks' warnings, if it is this rank's
    int own = 0;
    Communicator world(endpoint, Group::world(4),
                       {.late_after = milliseconds(200), .warn = [&](const std::string& text) {
                          if (warnings.fetch_add(1) == 0) first = text;
                          ++own;
                        }});
    std::vector<float> x(10, 1.0f);
    world.broadcast(view(x), 0, {.name = "before"});
    world.barrier();
    if (endpoint.rank() == 3) {
      while (warnings == 0) endpoint.idle(endpoint.clock().after(milliseconds(1)));
    }
    world.allreduce(view(x), ReduceOp::sum, {.name = "gradient"});
    EXPECT_EQ(x[0], 4.0f);
    world.barrier();
    if (endpoint.facts().backend == "sim") {
      EXPECT_EQ(own, endpoint.rank() == 0 ? 1 : 0);
    }
    EXPECT_LE(own, 1);
    if (first.empty()) return;
    EXPECT_TRUE(contains(first, "allreduce #3 'gradient'") && contains(first, "missing: rank 3")) << first;
    EXPECT_TRUE(contains(first, "finished barrier #2")) << first;
  });
}

// ---- one Communicator after another

// Rank 0 comes so late that the other has looked at its board, and seen what the earlier one left there.
TEST_P(Failure, WhatAnEarlierCommunicatorOfTheGroupDidIsNotTakenForTheLaterOnes) {
  run(2, [](Endpoint& endpoint) {
    const auto twice = [&](auto make, const std::string& name) {
      std::vector<float> x(1, 1.0f);
      for (const char* call : {"first", "second"}) {
        Communicator communicator = make();
        if (endpoint.rank() == 0 && call == std::string("second")) {
          const TimePoint late = endpoint.clock().after(milliseconds(250));
          while (endpoint.clock().now() < late) endpoint.idle(late);
        }
        for (int i = 0; i < 3; ++i) communicator.allreduce(view(x), ReduceOp::average, {.name = name + call});
      }
      EXPECT_EQ(x[0], 1.0f);
    };
    twice([&] { return Communicator(endpoint, Group::world(2)); }, "world, ");
    twice([&] { return Communicator::beside(endpoint, Group::world(2), "part"); }, "beside, ");
  });
}

// ---- leavers

TEST_P(Failure, ARankThatLeavesIsAnErrorThatNamesItAndTheOthersGoOnWithoutIt) {
  run(4, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(4));
    std::vector<float> x(1000, 1.0f);
    world.allreduce(view(x));
    meet(endpoint, 1);
    if (endpoint.rank() == 1) return;
    const auto error = error_of([&] {
      for (;;) world.allreduce(view(x), ReduceOp::average, {.name = "after"});
    });
    EXPECT_EQ(error->code(), Code::peer_lost) << error->what();
    EXPECT_EQ(error->rank(), 1);
    EXPECT_TRUE(contains(error->what(), "rank 1 (host") && contains(error->what(), "'after'") &&
                contains(error->what(), "pid"))
        << error->what();
    Communicator next = world.recover();
    EXPECT_EQ(next.group().ranks(), (std::vector<Rank>{0, 2, 3}));
    std::fill(x.begin(), x.end(), 1.0f);
    next.allreduce(view(x));
    EXPECT_EQ(x[0], 3.0f);
  });
}

}  // namespace
}  // namespace paceline
