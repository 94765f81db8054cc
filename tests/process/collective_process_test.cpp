// Collectives on real processes over shared memory: every operation, the promised bits, and ranks that disagree.
#include <gtest/gtest.h>

#include "paceline/collective/bits_test_support.hpp"
#include "paceline/collective/collective_test_support.hpp"
#include "paceline/collective/mismatch_test_support.hpp"
#include "tests/process/processes.hpp"

namespace paceline {
namespace {

using namespace collective_test;

void on_processes(int n, const std::function<void(Endpoint&)>& body) { process_test::run_processes(n, body); }

class ProcessCollectives : public testing::TestWithParam<int> {
  void TearDown() override { process_test::expect_nothing_left(); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, ProcessCollectives, testing::Range(1, 9));

TEST_P(ProcessCollectives, GiveWhatTheReferenceGives) {
  const auto cases = sample_of_cases(GetParam(), 3, 1);
  on_processes(GetParam(), [&](Endpoint& endpoint) { try_cases(endpoint, cases); });
}

TEST_P(ProcessCollectives, SlowEveryTypeOperationSizeAndMemory) {
  const auto cases = every_case(GetParam());
  on_processes(GetParam(), [&](Endpoint& endpoint) { try_cases(endpoint, cases); });
}

TEST_P(ProcessCollectives, SumInRankOrderBitForBit) {
  for (const std::size_t segment : {256, 1 << 20}) {
    on_processes(GetParam(), [&](Endpoint& endpoint) { expect_rank_order_bits(endpoint, segment); });
  }
}

TEST_P(ProcessCollectives, OfSubGroupsRunAtTheSameTimeAndTheWorldBetween) {
  const int n = GetParam();
  on_processes(n, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(n), {.segment_bytes = kShortSegment});
    Communicator half = world.split(endpoint.rank() % 2, -endpoint.rank());
    Memory memory(endpoint);
    const auto of_half = sample_of_cases(half.size(), 1, static_cast<std::uint64_t>(endpoint.rank() % 2));
    const auto of_world = sample_of_cases(n, 1, 7);
    for (std::size_t i = 0; i < of_half.size(); ++i) {
      Case small = of_half[i];
      // Which rank has which memory is by job-wide rank.
      if (small.where == Where::mixed) small.where = Where::arena;
      Trial inner(half, memory, small);
      inner.call();
      EXPECT_EQ(inner.wrong(), "");
      Trial outer(world, memory, of_world[i]);
      outer.call();
      EXPECT_EQ(outer.wrong(), "");
      EXPECT_TRUE(memory.reset());
    }
  });
}

class ProcessDisagreement : public testing::TestWithParam<Mismatch> {
  void TearDown() override { process_test::expect_nothing_left(); }
};
INSTANTIATE_TEST_SUITE_P(On, ProcessDisagreement, testing::ValuesIn(all_mismatches()),
                         [](const auto& which) { return which.param.name; });

TEST_P(ProcessDisagreement, IsAnErrorOnEveryRankAndThenOver) {
  for (const int n : {2, 4}) expect_mismatch(on_processes, n, n - 1, GetParam());
}

}  // namespace
}  // namespace paceline
