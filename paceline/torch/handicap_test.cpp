#include "paceline/torch/handicap.hpp"

#include <gtest/gtest.h>

#include <array>

#include "paceline/torch/complaint_test_support.hpp"

namespace paceline {
namespace {

TEST(Handicap, AFixedOneIsAlwaysTheSameWorkers) {
  const Handicap handicap = parse_handicap("fixed:2:3.5");
  for (std::int64_t step = 0; step < 20; ++step) {
    for (int worker = 0; worker < 4; ++worker) EXPECT_EQ(handicap.extra(step, worker, 4, 1), worker == 2 ? 2.5 : 0);
  }
}

TEST(Handicap, ARandomOneIsOneWorkersInEachStepAndEveryWorkersAsOften) {
  const Handicap handicap = parse_handicap("random:3");
  std::array<int, 4> times{};
  for (std::int64_t step = 0; step < 4000; ++step) {
    int slow = 0;
    for (int worker = 0; worker < 4; ++worker) {
      const double extra = handicap.extra(step, worker, 4, 7);
      EXPECT_EQ(extra, handicap.extra(step, worker, 4, 7));
      if (extra == 0) continue;
      EXPECT_EQ(extra, 2);
      ++slow;
      ++times[static_cast<std::size_t>(worker)];
    }
    EXPECT_EQ(slow, 1);
  }
  for (const int count : times) EXPECT_NEAR(count, 1000, 120);
}

TEST(Handicap, NobodysIsNone) {
  EXPECT_EQ(parse_handicap("").extra(3, 0, 1, 1), 0);
  EXPECT_EQ(parse_handicap("random:1").extra(3, 0, 1, 1), 0);
}

TEST(Handicap, WordsThatAreNoneAreRefused) {
  for (const std::string bad : {"random", "random:", "random:0.5", "random:x", "random:1:3", "random:1e9", "fixed:3",
                                "fixed:-1:3", "fixed:x:3", "fixed:1:", "slow:3", "random:nan"})
    EXPECT_NE(complaint([&] { parse_handicap(bad); }), "") << bad;
  EXPECT_EQ(complaint([] { require_worker(parse_handicap("fixed:1:3"), 2); }), "");
  EXPECT_NE(complaint([] { require_worker(parse_handicap("fixed:2:3"), 2); }), "");
}

}  // namespace
}  // namespace paceline
