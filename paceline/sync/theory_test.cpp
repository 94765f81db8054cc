#include "paceline/sync/theory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

// By hand: 2 (s + 1) P = 2 * 4 * 8 = 64, whose root is 8.
TEST(SspTheory, ScaleStepAndBoundAreThoseOfTheTheorem) {
  const ConvexProblem problem = {.radius = 4, .slope = 0.5};
  EXPECT_DOUBLE_EQ(ssp_scale(problem, 3, 8), 1);
  EXPECT_DOUBLE_EQ(ssp_step(1, 1), 1);
  EXPECT_DOUBLE_EQ(ssp_step(3, 4), 1.5);
  EXPECT_DOUBLE_EQ(ssp_regret_bound(problem, 3, 8, 6400), 4 * 4 * 0.5 * 0.1);
}

TEST(SspTheory, FourTimesTheUpdatesHalveTheBoundAndFourTimesTheSlackDoubleIt) {
  const ConvexProblem problem = {.radius = 3, .slope = 2};
  const double bound = ssp_regret_bound(problem, 0, 4, 1000);
  EXPECT_DOUBLE_EQ(ssp_regret_bound(problem, 0, 4, 4000), bound / 2);
  EXPECT_DOUBLE_EQ(ssp_regret_bound(problem, 3, 4, 1000), bound * 2);
}

// By hand: scale L^2 = 0.5 * 4 = 2, F^2 / scale = 9 / 0.5 = 18.
constexpr StaleRun kRun = {.problem = {.radius = 3, .slope = 2},
                           .scale = 0.5,
                           .mean = 5,
                           .variance = 10,
                           .bound = 1,
                           .workers = 4,
                           .updates = 10000};

TEST(StaleTheory, TheMeanPenaltyIsTwoStepsOfTheMeanStaleness) {
  EXPECT_DOUBLE_EQ(mean_penalty(kRun), 20);
  EXPECT_DOUBLE_EQ(expected_regret(kRun), (2 + 18 + 20) / 100.0);
}

TEST(StaleTheory, TheVariancePenaltyAndTheTailAreThoseOfTheTheorem) {
  // v = 4 (ln 10000 + 1) / 10000 with ln 10000 = 9.210340371976184, so 2 v var = 0.0816827229758...
  EXPECT_NEAR(variance_penalty(kRun), 0.08168272297580947, 1e-15);
  // 2/3 * 2 * 3 * 4 * 0.1 = 1.6, and T excess^2 = 100.
  EXPECT_NEAR(excess_probability(kRun, 0.1), std::exp(-100 / 1.6816827229758095), 1e-30);
}

TEST(StaleTheory, FreshReadsPayNothing) {
  StaleRun fresh = kRun;
  fresh.mean = fresh.variance = 0;
  EXPECT_EQ(mean_penalty(fresh), 0);
  EXPECT_EQ(variance_penalty(fresh), 0);
  EXPECT_DOUBLE_EQ(expected_regret(fresh), 0.2);
}

TEST(StaleTheory, MoreVarianceMakesALargeExcessLikelier) {
  StaleRun wild = kRun;
  wild.variance = 1000;
  EXPECT_GT(excess_probability(wild, 0.01), excess_probability(kRun, 0.01));
  EXPECT_EQ(excess_probability(kRun, 0), 1);
  EXPECT_EQ(excess_probability(kRun, -1), 1);
  EXPECT_LE(excess_probability(wild, 1e-9), 1);
}

// The steps of the proof that are arithmetic: the sums over t that the closed forms stand for are never greater.
TEST(StaleTheory, TheClosedFormsAreAboveTheSumsTheyStandFor) {
  double steps = 0, squares = 0;
  for (std::int64_t t = 1; t <= 10000; ++t) {
    steps += ssp_step(0.5, t);
    squares += ssp_step(0.5, t) * ssp_step(0.5, t);
    const double updates = static_cast<double>(t);
    ASSERT_LE(steps, 2 * 0.5 * std::sqrt(updates));
    ASSERT_LE(squares, 0.25 * (std::log(updates) + 1) * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace paceline
