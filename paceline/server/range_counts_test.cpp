#include "paceline/server/range_counts.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

TEST(RangeCounts, CountsEachElementAsAnArrayOfCountersWould) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const std::uint64_t size = 1 + random.below(60);
    RangeCounts counts(size);
    std::vector<std::uint64_t> reference(size);
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t first = random.below(size + 1);
      const std::uint64_t last = first + random.below(size - first + 1);
      std::uint64_t next = first;
      counts.add(first, last, [&](std::uint64_t begin, std::uint64_t end, std::uint64_t count) {
        ASSERT_EQ(begin, next);
        ASSERT_GT(end, begin);
        for (std::uint64_t at = begin; at < end; ++at) ASSERT_EQ(++reference[at], count);
        next = end;
      });
      ASSERT_EQ(next, last);
    }
  }
}

TEST(RangeCounts, TheSameRangesAgainHaveNoMorePartsThanBefore) {
  RangeCounts counts(100);
  for (int i = 0; i < 1000; ++i) {
    int parts = 0;
    for (const std::uint64_t first : {0, 20, 60}) counts.add(first, first + 20, [&](auto...) { ++parts; });
    EXPECT_EQ(parts, 3);
  }
}

TEST(RangeCounts, WhatIsSetIsVisitedAndCountedOnFromThere) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed, 2);
    const std::uint64_t size = 1 + random.below(60);
    RangeCounts counts(size);
    std::vector<std::uint64_t> reference(size);
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t first = random.below(size + 1);
      const std::uint64_t last = first + random.below(size - first + 1);
      const std::uint64_t count = random.below(4);
      if (random.below(2) == 0) {
        counts.set(first, last, count);
        for (std::uint64_t at = first; at < last; ++at) reference[at] = count;
      } else {
        counts.add(first, last, [&](std::uint64_t begin, std::uint64_t end, std::uint64_t) {
          for (std::uint64_t at = begin; at < end; ++at) ++reference[at];
        });
      }
      std::vector<std::uint64_t> visited;
      counts.visit(first, size, [&](std::uint64_t begin, std::uint64_t end, std::uint64_t of) {
        visited.insert(visited.end(), end - begin, of);
      });
      ASSERT_EQ(visited, std::vector(reference.begin() + static_cast<std::ptrdiff_t>(first), reference.end()));
    }
  }
}

TEST(RangeCounts, PartsThatWereSetAlikeAreOne) {
  RangeCounts counts(100);
  for (std::uint64_t at = 0; at < 100; ++at) counts.set(at, at + 1, 7);
  int parts = 0;
  counts.visit(0, 100, [&](auto...) { ++parts; });
  EXPECT_EQ(parts, 1);
}

TEST(RangeCounts, AnEmptyRangeIsNoUpdate) {
  RangeCounts counts(10);
  counts.add(4, 4, [](auto...) { FAIL(); });
  RangeCounts none(0);
  none.add(0, 0, [](auto...) { FAIL(); });
}

}  // namespace
}  // namespace paceline
