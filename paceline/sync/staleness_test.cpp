#include "paceline/sync/staleness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

TEST(Staleness, NothingReadIsNothingCounted) {
  const Staleness none;
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.mean(), 0);
  EXPECT_EQ(none.variance(), 0);
  EXPECT_EQ(none.max(), 0);
}

TEST(Staleness, MeanVarianceAndGreatestAreThoseOfTheReads) {
  Staleness reads;
  reads.add(0, 0, false);
  reads.add(1, 3, false);
  reads.add(3, 9, true);
  reads.add(4, 12, true);
  EXPECT_EQ(reads.count(), 4);
  EXPECT_EQ(reads.violations(), 2);
  EXPECT_DOUBLE_EQ(reads.mean(), 2);
  EXPECT_DOUBLE_EQ(reads.variance(), 2.5);  // (4 + 1 + 1 + 4) / 4
  EXPECT_EQ(reads.max(), 4);
  EXPECT_DOUBLE_EQ(reads.mean_missed(), 6);
  EXPECT_DOUBLE_EQ(reads.variance_missed(), 22.5);  // (36 + 9 + 9 + 36) / 4
  EXPECT_EQ(reads.max_missed(), 12);
}

TEST(Staleness, AReadAheadOfItsReaderIsNotOld) {
  Staleness reads;
  reads.add(-2, -5, false);
  EXPECT_EQ(reads.mean(), 0);
  EXPECT_EQ(reads.mean_missed(), 0);
  EXPECT_EQ(reads.histogram()[0], 1);
}

TEST(Staleness, EqualReadsHaveNoVariance) {
  Staleness reads;
  for (int i = 0; i < 1000; ++i) reads.add(999'983, 0, false);
  EXPECT_GE(reads.variance(), 0);
  EXPECT_NEAR(reads.variance(), 0, 1e-3);
}

TEST(Staleness, EveryValueFallsIntoTheBucketThatBeginsAtOrBelowIt) {
  EXPECT_EQ(Staleness::bucket_begin(15), 15);
  EXPECT_EQ(Staleness::bucket_begin(16), 16);
  EXPECT_EQ(Staleness::bucket_begin(17), 32);
  for (std::int64_t value = 0; value < 5'000'000; value = value < 5000 ? value + 1 : value * 5 / 4) {
    const int bucket = Staleness::bucket_of(value);
    ASSERT_LE(Staleness::bucket_begin(bucket), value);
    if (bucket + 1 < Staleness::kBuckets) {
      ASSERT_GT(Staleness::bucket_begin(bucket + 1), value);
    }
  }
  EXPECT_EQ(Staleness::bucket_of(1 << 20), Staleness::kBuckets - 1);
  EXPECT_EQ(Staleness::bucket_of((1 << 20) - 1), Staleness::kBuckets - 2);
  EXPECT_EQ(Staleness::bucket_of(std::numeric_limits<std::int64_t>::max()), Staleness::kBuckets - 1);
}

Staleness random_reads(std::uint64_t seed, int count) {
  Random random(seed);
  Staleness reads;
  for (int i = 0; i < count; ++i) {
    const std::int64_t clocks = static_cast<std::int64_t>(random.below(40));
    reads.add(clocks, clocks * 3, clocks > 30);
  }
  return reads;
}

TEST(Staleness, MergedReadsAreAsIfCountedTogether) {
  Staleness together = random_reads(1, 500);
  const Staleness second = random_reads(2, 300);
  Staleness merged = together;
  merged.merge(second);
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t clocks = static_cast<std::int64_t>(random.below(40));
    together.add(clocks, clocks * 3, clocks > 30);
  }
  EXPECT_EQ(merged, together);
}

TEST(Staleness, FlatFormsThatAreAddedUpAreTheMergedReads) {
  const Staleness parts[] = {random_reads(1, 500), random_reads(2, 300), Staleness(), random_reads(3, 7)};
  std::vector<double> sums(parts[0].sums().size());
  std::vector<double> maxima(parts[0].maxima().size());
  Staleness merged;
  for (const Staleness& part : parts) {
    merged.merge(part);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part.sums()[i];
    for (std::size_t i = 0; i < maxima.size(); ++i) maxima[i] = std::max(maxima[i], part.maxima()[i]);
  }
  EXPECT_EQ(Staleness::from(sums, maxima), merged);
  EXPECT_EQ(merged.count(), 807);
}

TEST(Staleness, TheHistogramCountsEveryRead) {
  const Staleness reads = random_reads(5, 1000);
  std::int64_t sum = 0;
  for (const std::int64_t count : reads.histogram()) sum += count;
  EXPECT_EQ(sum, 1000);
  EXPECT_GT(reads.histogram()[17], 0);  // 32 to 39
  EXPECT_EQ(reads.histogram()[18], 0);
}

}  // namespace
}  // namespace paceline
