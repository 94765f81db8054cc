// The study of a convex problem against what is known of it by other means.
#include "paceline/torch/convex_theory.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/error.hpp"
#include "paceline/data/open.hpp"

namespace paceline {
namespace {

TEST(ConvexTheory, OnTheBallTheBestPointIsNoFartherThanTheRadiusAndNoWorseThanZero) {
  const DataSplit data = open_data("digits");
  const ConvexStudy small = study_convex(data.train, data.normalisation, 0.5);
  EXPECT_NEAR(small.best_norm, 0.5, 1e-5);
  EXPECT_GT(small.multiplier, 1e-6);
  EXPECT_LT(small.best_loss, std::log(10.0));  // that of all weights zero
  EXPECT_LE(small.steepness, 1e-10);
}

TEST(ConvexTheory, ALargerBallHoldsABetterPoint) {
  const DataSplit data = open_data("digits");
  double before = std::log(10.0);
  for (const double radius : {0.5, 2.0}) {
    const ConvexStudy study = study_convex(data.train, data.normalisation, radius);
    EXPECT_LT(study.best_loss, before) << radius;
    EXPECT_DOUBLE_EQ(study.problem.radius, std::sqrt(2.0) * radius);
    before = study.best_loss;
  }
}

// d loss / d radius = -multiplier * radius: what the multiplier of a constraint means.
TEST(ConvexTheory, TheMultiplierIsWhatALargerBallWouldGain) {
  const DataSplit data = open_data("digits");
  const double radius = 2, step = 1e-2;
  const ConvexStudy here = study_convex(data.train, data.normalisation, radius);
  const ConvexStudy more = study_convex(data.train, data.normalisation, radius + step);
  const ConvexStudy less = study_convex(data.train, data.normalisation, radius - step);
  EXPECT_NEAR((less.best_loss - more.best_loss) / (2 * step), here.multiplier * radius,
              1e-3 * here.multiplier * radius);
}

TEST(ConvexTheory, TheRateGivesEachUpdateTheStepOfTheTheorem) {
  const ConvexStudy study{.problem = {.radius = 3, .slope = 7}, .radius = 1};
  for (const int workers : {1, 4}) {
    const double scale = ssp_scale(study.problem, 2, workers);
    const std::int64_t step = 25;  // in which a worker's change counts one of `workers` parts
    const double rate = theory_rate(study, 2, workers) / std::sqrt(static_cast<double>(step));
    EXPECT_NEAR(rate / workers, ssp_step(scale, step * workers), 1e-12);
  }
}

TEST(ConvexTheory, WhoLeavesTheBallIsTold) {
  TheoryFigures figures{.study = {.problem = {.radius = 3, .slope = 7}, .radius = 1}};
  figures.run = {
      .problem = figures.study.problem, .scale = 1, .mean = 0, .variance = 0, .bound = 0, .workers = 1, .updates = 1};
  EXPECT_EQ(figures.lines().size(), 3u);
  figures.farthest = 2;
  ASSERT_EQ(figures.lines().size(), 4u);
  EXPECT_NE(figures.lines()[3].find("left the ball (distance 2)"), std::string::npos);
  EXPECT_FALSE(to_json(figures)["inside"].get<bool>());
}

}  // namespace
}  // namespace paceline
