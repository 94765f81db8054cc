#include "paceline/sync/clocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

TEST(Clocks, TheLeastClockOfAllCounts) {
  Clocks clocks(3);
  EXPECT_EQ(clocks.slowest(), 0);
  EXPECT_FALSE(clocks.advance(0, 1));
  EXPECT_FALSE(clocks.advance(2, 5));
  EXPECT_TRUE(clocks.advance(1, 3));
  EXPECT_EQ(clocks.slowest(), 1);
  EXPECT_EQ(clocks.fastest(), 5);
  EXPECT_EQ(clocks.at(1), 3);
}

TEST(Clocks, AClockNeverGoesBack) {
  Clocks clocks(1);
  EXPECT_TRUE(clocks.advance(0, 4));
  EXPECT_FALSE(clocks.advance(0, 3));
  EXPECT_FALSE(clocks.advance(0, 4));
  EXPECT_EQ(clocks.at(0), 4);
}

TEST(Clocks, AWorkerThatHasLeftHoldsUpNobodyAndKeepsItsClock) {
  Clocks clocks(2);
  clocks.advance(0, 7);
  EXPECT_TRUE(clocks.leave(1));
  EXPECT_EQ(clocks.slowest(), 7);
  EXPECT_FALSE(clocks.active(1));
  EXPECT_FALSE(clocks.advance(1, 9));
  EXPECT_EQ(clocks.at(1), 0);
  EXPECT_FALSE(clocks.leave(1));
}

TEST(Clocks, WhenAllHaveLeftTheFurthestThatAnyCameCounts) {
  Clocks clocks(2);
  clocks.advance(0, 7);
  clocks.advance(1, 3);
  EXPECT_FALSE(clocks.leave(0));
  EXPECT_EQ(clocks.slowest(), 3);
  EXPECT_TRUE(clocks.leave(1));
  EXPECT_EQ(clocks.slowest(), 7);
}

std::int64_t slowest_by_looking(const Clocks& clocks) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  bool any = false;
  for (int worker = 0; worker < clocks.workers(); ++worker) {
    if (clocks.active(worker)) least = std::min(least, clocks.at(worker));
    any = any || clocks.active(worker);
  }
  return any ? least : clocks.fastest();
}

TEST(Clocks, TheLeastClockIsRightAfterAnySequenceOfEvents) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Clocks clocks(1 + static_cast<int>(random.below(6)));
    for (int event = 0; event < 200; ++event) {
      const int worker = static_cast<int>(random.below(static_cast<std::uint64_t>(clocks.workers())));
      const std::int64_t before = clocks.slowest();
      const bool rose =
          random.below(60) == 0
              ? clocks.leave(worker)
              : clocks.advance(worker, clocks.at(worker) - 1 + static_cast<std::int64_t>(random.below(4)));
      ASSERT_EQ(clocks.slowest(), slowest_by_looking(clocks)) << "seed " << seed << ", event " << event;
      ASSERT_EQ(rose, clocks.slowest() > before) << "seed " << seed << ", event " << event;
    }
  }
}

}  // namespace
}  // namespace paceline
