// Collectives on ranks that are threads: every operation against its reference, memory of all kinds, handles,
// sub-groups, and the promise of the same bits.
#include "paceline/collective/communicator.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <mutex>
#include <numeric>

#include "paceline/collective/bits_test_support.hpp"
#include "paceline/collective/collective_test_support.hpp"
#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/shm/shm.hpp"

namespace paceline {
namespace {

using namespace collective_test;

void on_threads(int n, const std::function<void(Endpoint&)>& body) { run_ranks(n, body); }
void on_shm_threads(int n, const std::function<void(Endpoint&)>& body) {
  run_ranks(shm::make_shm_thread_endpoints(n), body);
}

// ---- every operation against its reference

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Range(1, 18));

TEST_P(Collectives, GiveWhatTheReferenceGivesOnThreads) {
  const auto cases = sample_of_cases(GetParam(), GetParam() < 9 ? 4 : 2, 1);
  on_threads(GetParam(), [&](Endpoint& endpoint) { try_cases(endpoint, cases); });
}

TEST_P(Collectives, GiveWhatTheReferenceGivesOnSharedMemory) {
  const auto cases = sample_of_cases(GetParam(), GetParam() < 9 ? 2 : 1, 2);
  on_shm_threads(GetParam(), [&](Endpoint& endpoint) { try_cases(endpoint, cases); });
}

TEST_P(Collectives, SlowEveryTypeOperationSizeAndMemoryOnThreads) {
  const auto cases = every_case(GetParam());
  on_threads(GetParam(), [&](Endpoint& endpoint) { try_cases(endpoint, cases); });
}

// ---- memory

TEST(CollectiveMemory, TheShmAlgorithmOnOtherMemoryIsAnErrorThatNamesTheRank) {
  for (const Collective op : {Collective::allreduce, Collective::allgather, Collective::broadcast}) {
    on_threads(4, [&](Endpoint& endpoint) {
      Communicator world(endpoint, Group::world(4));
      Memory memory(endpoint);
      Trial trial(world, memory, {.op = op, .algorithm = Algorithm::shm, .count = 100, .where = Where::mixed});
      try {
        trial.call();
        ADD_FAILURE() << "rank 2's memory is not in an arena";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid);
        EXPECT_EQ(error.rank(), 2);
        EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("Endpoint::allocate"), std::string::npos) << error.what();
      }
      Communicator next = world.recover();
      Trial again(next, memory, {.op = op, .count = 100, .where = Where::mixed});
      again.call();
      EXPECT_EQ(again.wrong(), "");
    });
  }
}

TEST(CollectiveMemory, TheShmAlgorithmTakesNoElementsFromAnywhere) {
  on_threads(3, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> nothing;
    world.allreduce(view(nothing), ReduceOp::sum, {.algorithm = Algorithm::shm});
    world.broadcast(view(nothing), 1, {.algorithm = Algorithm::shm});
  });
}

// Past 16 MiB the kernels store around the caches, which wants aligned addresses; a view may start anywhere.
TEST(CollectiveMemory, AVectorOfManyMegabytesMayStartAtAnyElement) {
  on_threads(2, [](Endpoint& endpoint) {
    constexpr std::size_t kCount = (17 << 20) / sizeof(float);
    Communicator world(endpoint, Group::world(2));
    const Arena arena = endpoint.allocate((kCount + 16) * sizeof(float));
    for (const std::size_t shift : {1u, 3u}) {
      const auto data = arena.as<float>().subspan(shift + static_cast<std::size_t>(endpoint.rank()), kCount);
      std::iota(data.begin(), data.end(), static_cast<float>(endpoint.rank()));
      world.allreduce(view(data));
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(data[i], static_cast<float>(i) + (static_cast<float>(i) + 1)) << i;
      }
    }
  });
}

std::size_t free_bytes() {
  std::ifstream lines("/proc/meminfo");
  for (std::string key; lines >> key;) {
    std::size_t kilobytes = 0;
    if (key == "MemAvailable:" && lines >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

TEST(CollectiveMemory, SlowCountsBeyondTwoToThe31) {
  constexpr std::size_t kCount = (std::size_t{1} << 31) + 12345;
  if (free_bytes() < std::size_t{12} << 30)
    GTEST_SKIP() << "needs 12 GiB of free memory, there are " << free_bytes() << " bytes";
  for (const bool in_arena : {false, true}) {
    on_threads(2, [&](Endpoint& endpoint) {
      Communicator world(endpoint, Group::world(2));
      std::vector<std::uint8_t> heap(in_arena ? 0 : kCount);
      const Arena arena = endpoint.allocate(in_arena ? kCount : 1);
      const std::span<std::uint8_t> data = in_arena ? arena.as<std::uint8_t>() : std::span(heap);
      for (std::size_t i = 0; i < kCount; ++i)
        data[i] = static_cast<std::uint8_t>(i % 97 + static_cast<std::size_t>(endpoint.rank()));
      world.allreduce(view(data));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kCount; ++i) wrong += data[i] != static_cast<std::uint8_t>(2 * (i % 97) + 1);
      EXPECT_EQ(wrong, 0u);
      if (endpoint.rank() == 1) std::fill(data.begin(), data.end(), std::uint8_t{0});
      world.broadcast(view(data), 0);
      EXPECT_EQ(data[kCount - 1], static_cast<std::uint8_t>(2 * ((kCount - 1) % 97) + 1));
      const std::size_t half = kCount / 2;
      world.allgather(view(data.subspan(static_cast<std::size_t>(endpoint.rank()) * half, half)),
                      view(data.first(2 * half)));
      EXPECT_EQ(data[half], static_cast<std::uint8_t>(2 * (half % 97) + 1));
    });
  }
}

// ---- handles

TEST(Handles, OutstandingOperationsOfAllKindsAreWaitedForInAnyOrder) {
  for (const int n : {1, 2, 3, 5}) {
    for (const std::uint64_t seed : {1u, 2u}) {
      on_threads(n, [&](Endpoint& endpoint) {
        Communicator world(endpoint, Group::world(n), {.segment_bytes = kShortSegment});
        Memory memory(endpoint, 16 << 20);
        std::vector<Trial> trials;
        std::vector<Handle> handles;
        for (const Case& one : sample_of_cases(n, 1, seed)) {
          trials.emplace_back(world, memory, one);
          handles.push_back(trials.back().start());
        }
        std::vector<std::size_t> order(trials.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), Random(seed, static_cast<std::uint64_t>(endpoint.rank())));
        for (const std::size_t i : order) {
          handles[i].wait();
          EXPECT_EQ(trials[i].wrong(), "");
        }
        EXPECT_TRUE(memory.reset());
      });
    }
  }
}

TEST(Handles, TestingAloneCompletesAnOperation) {
  on_threads(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3), {.segment_bytes = kShortSegment});
    Memory memory(endpoint);
    Trial trial(world, memory, {.op = Collective::allreduce, .algorithm = Algorithm::ring, .count = 5000});
    Handle handle = trial.start();
    while (!handle.test()) {
    }
    EXPECT_EQ(trial.wrong(), "");
    handle.wait();
  });
}

TEST(Handles, ProgressMovesOperationsThatNobodyWaitsFor) {
  on_threads(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2), {.segment_bytes = kShortSegment});
    Memory memory(endpoint);
    Trial trial(world, memory, {.op = Collective::allreduce, .algorithm = Algorithm::ordered, .count = 5000});
    Handle handle = trial.start();
    if (endpoint.rank() == 0) {
      // Rank 1 cannot complete its wait unless this rank's half moves too, and cannot send before it has.
      Pending told = endpoint.receive(1, {4711, 1}, std::span<std::byte>{});
      while (!told.done()) world.progress();
    } else {
      handle.wait();
      endpoint.send(0, {4711, 1}, {}).wait();
    }
    handle.wait();
    EXPECT_EQ(trial.wrong(), "");
  });
}

// ---- sub-groups

TEST(Split, OddAndEvenRanksWorkAtTheSameTimeAndTheWorldBetween) {
  for (const int n : {2, 3, 6, 9}) {
    on_threads(n, [&](Endpoint& endpoint) {
      Communicator world(endpoint, Group::world(n), {.segment_bytes = kShortSegment});
      Communicator half = world.split(endpoint.rank() % 2, endpoint.rank());
      EXPECT_EQ(half.size(), (n + 1 - endpoint.rank() % 2) / 2);
      EXPECT_EQ(half.rank(), endpoint.rank() / 2);
      Memory memory(endpoint);
      // As many operations in both halves as there are algorithms, but on other sizes, and the world between.
      const auto of_half = sample_of_cases(half.size(), 1, static_cast<std::uint64_t>(endpoint.rank() % 2));
      const auto of_world = sample_of_cases(n, 1, 7);
      for (std::size_t i = 0; i < of_half.size(); ++i) {
        Trial small(half, memory, of_half[i]);
        small.call();
        EXPECT_EQ(small.wrong(), "");
        Trial large(world, memory, of_world[i]);
        large.call();
        EXPECT_EQ(large.wrong(), "");
        EXPECT_TRUE(memory.reset());
      }
    });
  }
}

TEST(Split, KeysOrderTheMembersAndRanksBreakTies) {
  on_threads(6, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(6));
    EXPECT_EQ(world.split(0, -endpoint.rank()).group().ranks(), (std::vector<Rank>{5, 4, 3, 2, 1, 0}));
    EXPECT_EQ(world.split(7, endpoint.rank() % 2).group().ranks(), (std::vector<Rank>{0, 2, 4, 1, 3, 5}));
    const std::int64_t extreme =
        endpoint.rank() < 3 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(world.split(extreme, 0).size(), 3);
    Communicator alone = world.split(endpoint.rank(), 0);
    EXPECT_EQ(alone.size(), 1);
    std::vector<int> own = {endpoint.rank()};
    alone.allreduce(view(own));
    EXPECT_EQ(own[0], endpoint.rank());
  });
}

TEST(Split, ReversedGroupsReduceInTheirOwnOrderAndNestedOnesStayApart) {
  on_threads(8, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(8), {.segment_bytes = kShortSegment});
    Communicator reversed = world.split(0, -endpoint.rank());
    EXPECT_EQ(reversed.rank(), 7 - endpoint.rank());
    Communicator half = reversed.split(reversed.rank() / 4, reversed.rank());
    Communicator pair = half.split(half.rank() % 2, half.rank());
    EXPECT_EQ(half.size(), 4);
    EXPECT_EQ(pair.size(), 2);
    Memory memory(endpoint);
    for (int i = 0; i < 5; ++i) {
      for (Communicator* group : {&pair, &world, &half, &reversed}) {
        for (const Collective op : {Collective::allreduce, Collective::alltoall, Collective::broadcast}) {
          Trial trial(*group, memory,
                      {.op = op, .count = 700, .root = i % group->size(), .salt = static_cast<std::uint64_t>(i)});
          trial.call();
          EXPECT_EQ(trial.wrong(), "");
        }
      }
      EXPECT_TRUE(memory.reset());
    }
  });
}

// Every rank's operation of one group moves while it waits in another; otherwise two ranks that wait in different
// orders would wait for each other.
TEST(Split, AnOutstandingOperationOfOneGroupMovesWhileItsRankWaitsInAnother) {
  on_threads(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2), {.segment_bytes = kShortSegment});
    Communicator twin = world.split(0, 0);
    Memory memory(endpoint);
    Trial inner(twin, memory, {.op = Collective::allreduce, .algorithm = Algorithm::ring, .count = 5000});
    Trial outer(world, memory, {.op = Collective::allreduce, .algorithm = Algorithm::ring, .count = 1000});
    if (endpoint.rank() == 0) {
      Handle handle = inner.start();
      outer.call();
      handle.wait();
    } else {
      inner.call();
      outer.call();
    }
    EXPECT_EQ(inner.wrong(), "");
    EXPECT_EQ(outer.wrong(), "");
  });
}

// ---- misuse

TEST(Misuse, WhatAllRanksDoWrongAlikeBreaksNothing) {
  on_threads(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> x(9, 1.0f), y(9);
    const std::vector<std::int64_t> counts = {1, 2, 3};
    const std::vector<int> self = {endpoint.rank()}, outside = {3};
    const auto refused = [](const auto& call, const char* why) {
      try {
        call();
        ADD_FAILURE() << "accepted: " << why;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid) << error.what();
        EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      }
    };
    refused([&] { world.broadcast(view(x), 3); }, "root 3 is not one of the 3 ranks");
    refused([&] { world.reduce(view(x), -1); }, "root -1 is not one of the 3 ranks");
    refused([&] { world.gather(view(x), view(y), 5); }, "root 5 is not one of the 3 ranks");
    refused([&] { world.allreduce(view(x), ReduceOp::sum, {.algorithm = Algorithm::chain}); },
            "allreduce has no algorithm 'chain'");
    refused([&] { world.allreduce({x.data(), 9, DType::f32, Device::cuda}); }, "copy a CUDA tensor to the host first");
    refused([&] { world.allreduce({nullptr, 9, DType::f32, Device::host}); }, "without memory");
    refused([&] { world.allreduce({x.data(), -1, DType::f32, Device::host}); }, "a tensor view");
    refused([&] { world.allgather(view(x), view(y)); }, "3 ranks with 9 each need 27");
    refused([&] { world.alltoall(view(x), view(x)); }, "overlap");
    refused([&] { world.reduce_scatter(view(x), view(std::span(x).first(3))); }, "overlap");
    refused([&] { world.allgatherv(view(x), view(y), counts); }, "add up to 6 elements, the tensor has 9");
    refused([&] { world.neighbour_exchange(view(x), view(y), self); }, "cannot be a neighbour");
    refused([&] { world.neighbour_exchange(view(x), view(y), outside); }, "cannot be a neighbour");
    world.allreduce(view(x));
    EXPECT_EQ(x, std::vector<float>(9, 3.0f));
  });
}

// Nothing was sent, so a rank that corrects itself is where the others are.
TEST(Misuse, WhatOneRankDoesWrongAndThenRightBreaksNothing) {
  on_threads(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    std::vector<float> x(9, 1.0f);
    if (endpoint.rank() == 1) {
      EXPECT_THROW(world.broadcast(view(x), 3), Error);
      EXPECT_THROW(world.allreduce(view(x), ReduceOp::sum, {.algorithm = Algorithm::chain}), Error);
    }
    world.allreduce(view(x));
    EXPECT_EQ(x, std::vector<float>(9, 3.0f));
  });
}

TEST(Misuse, ARankOutsideTheGroupIsRefused) {
  on_threads(2, [](Endpoint& endpoint) {
    if (endpoint.rank() == 0) {
      EXPECT_THROW(Communicator(endpoint, Group({1}, 0, 5)), Error);
      Communicator world(endpoint, Group::world(2));
      EXPECT_THROW(world.recover(), Error) << "it is not broken";
    }
  });
}

// ---- bits

TEST(Bits, OrderedAndShmSumInRankOrderOnThreads) {
  for (const int n : {1, 2, 5}) {
    for (const std::size_t segment : {64, 1024, 1 << 20}) {
      on_threads(n, [&](Endpoint& endpoint) { expect_rank_order_bits(endpoint, segment); });
    }
  }
}

TEST(Bits, OrderedAndShmSumInRankOrderOnSharedMemory) {
  for (const int n : {2, 5}) {
    on_shm_threads(n, [&](Endpoint& endpoint) { expect_rank_order_bits(endpoint, 320); });
  }
}

TEST(Bits, EveryAlgorithmGivesAllRanksTheSameBits) {
  for (const int n : {2, 3, 5, 8}) {
    on_threads(n, expect_same_bits_on_all_ranks);
  }
}

}  // namespace
}  // namespace paceline
