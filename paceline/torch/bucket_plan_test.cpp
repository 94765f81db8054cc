#include "paceline/torch/bucket_plan.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;

std::vector<std::size_t> backwards(std::size_t n) {
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = n - 1 - i;
  return order;
}

std::size_t bytes_in(const std::vector<std::size_t>& bucket, const std::vector<BucketMember>& members) {
  std::size_t sum = 0;
  for (const std::size_t i : bucket) sum += members[i].bytes;
  return sum;
}

TEST(BucketPlan, ClosesABucketThatHasEnough) {
  const std::vector<BucketMember> members = {{10}, {60}, {50}, {40}, {100}};
  EXPECT_EQ(plan_buckets(members, backwards(5), 100), (Buckets{{4}, {3, 2, 1}, {0}}));
  EXPECT_EQ(plan_buckets(members, backwards(5), 1), (Buckets{{4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(plan_buckets(members, backwards(5), 1000), (Buckets{{4, 3, 2, 1, 0}}));
}

TEST(BucketPlan, OfNothingIsNothing) { EXPECT_EQ(plan_buckets({}, {}, 100), Buckets{}); }

TEST(BucketPlan, BucketsAreNumberedByWhenTheyAreComplete) {
  const std::vector<BucketMember> members = {{10, 0}, {10, 1}, {10, 0}, {10, 1}, {10, 0}};
  // Region 1 has enough first; what is left of each comes in the order of its last member.
  EXPECT_EQ(plan_buckets(members, {1, 0, 3, 2, 4}, 20), (Buckets{{1, 3}, {0, 2}, {4}}));
  EXPECT_EQ(plan_buckets(members, {0, 2, 4, 1, 3}, 1000), (Buckets{{0, 2, 4}, {1, 3}}));
  EXPECT_EQ(plan_buckets(members, {1, 3, 0, 2, 4}, 1000), (Buckets{{1, 3}, {0, 2, 4}}));
}

// Members of a region lie side by side in the order in which they become complete, so that a bucket must be a run of
// them without a gap.
TEST(BucketPlan, HasEachMemberOnceAndBucketsWithoutGaps) {
  Random random(7, 0);
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = random.below(40);
    std::vector<BucketMember> members(n);
    for (BucketMember& member : members) member = {1 + random.below(100), random.below(3)};
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0U);
    for (std::size_t left = n; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
    const std::size_t limit = 1 + random.below(300);

    std::vector<std::vector<std::size_t>> by_region(3), planned(3);
    for (const std::size_t i : order) by_region[members[i].region].push_back(i);
    std::vector<int> short_ones(3);
    for (const auto& bucket : plan_buckets(members, order, limit)) {
      ASSERT_FALSE(bucket.empty());
      const std::size_t region = members[bucket[0]].region;
      EXPECT_EQ(short_ones[region], 0) << "only a region's last bucket may have less";
      for (const std::size_t i : bucket) {
        EXPECT_EQ(members[i].region, region);
        planned[region].push_back(i);
      }
      const std::size_t bytes = bytes_in(bucket, members);
      EXPECT_LT(bytes - members[bucket.back()].bytes, limit) << "it was full before its last member";
      if (bytes < limit) ++short_ones[region];
    }
    EXPECT_EQ(planned, by_region);
  }
}

}  // namespace
}  // namespace paceline
