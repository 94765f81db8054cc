#include "paceline/record/ranking.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

double pair_by_pair(const std::vector<ScoredExample>& examples) {
  double pairs = 0, won = 0;
  for (const ScoredExample& one : examples) {
    for (const ScoredExample& zero : examples) {
      if (one.label != 1 || zero.label != 0) continue;
      pairs += 1;
      won += one.score > zero.score ? 1 : one.score == zero.score ? 0.5 : 0;
    }
  }
  return won / pairs;
}

TEST(AreaUnderCurve, IsTheShareOfPairsInTheRightOrder) {
  Random random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<ScoredExample> examples;
    for (int i = 0; i < 60; ++i)
      examples.push_back({static_cast<float>(random.below(20)), static_cast<float>(random.below(2))});
    EXPECT_DOUBLE_EQ(area_under_curve(examples), pair_by_pair(examples));
  }
}

TEST(AreaUnderCurve, IsOneHalfWhereNothingIsKnownAndUndefinedWithoutPairs) {
  EXPECT_EQ(area_under_curve({{1, 0}, {1, 1}, {1, 1}}), 0.5);
  EXPECT_EQ(area_under_curve({{1, 0}, {2, 1}}), 1);
  EXPECT_EQ(area_under_curve({{1, 1}, {2, 0}}), 0);
  EXPECT_TRUE(std::isnan(area_under_curve({})));
  EXPECT_TRUE(std::isnan(area_under_curve({{1, 1}})));
  EXPECT_TRUE(std::isnan(area_under_curve({{std::numeric_limits<float>::quiet_NaN(), 1}, {2, 0}})));
}

}  // namespace
}  // namespace paceline
