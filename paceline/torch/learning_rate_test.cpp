#include "paceline/torch/learning_rate.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(LearningRate, ConstantStays) {
  LearningRate rate("constant", 0.3, 100);
  for (const int step : {0, 1, 50, 99, 1000}) EXPECT_EQ(rate.at(step), 0.3);
  for (int epoch = 0; epoch < 5; ++epoch) rate.end_epoch(7);
  EXPECT_EQ(rate.at(100), 0.3);
}

TEST(LearningRate, CosineFallsToZeroAtTheEnd) {
  const LearningRate rate("cosine", 0.4, 100);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.4);
  EXPECT_NEAR(rate.at(50), 0.2, 1e-12);
  EXPECT_NEAR(rate.at(100), 0, 1e-12);
  EXPECT_NEAR(rate.at(150), 0, 1e-12);  // a run that was resumed with more epochs
  for (int step = 0; step < 100; ++step) EXPECT_GT(rate.at(step), rate.at(step + 1));
}

TEST(LearningRate, CosineOfARunWithoutStepsIsANumber) { EXPECT_DOUBLE_EQ(LearningRate("cosine", 0.4, 0).at(0), 0.4); }

TEST(LearningRate, PlateauHalvesAfterTwoEpochsThatAreNoBetter) {
  LearningRate rate("plateau", 0.8, 100);
  rate.end_epoch(1.0);
  rate.end_epoch(0.5);
  EXPECT_EQ(rate.at(0), 0.8);
  rate.end_epoch(0.5);  // as good is not better
  EXPECT_EQ(rate.at(0), 0.8);
  rate.end_epoch(0.6);
  EXPECT_EQ(rate.at(0), 0.4);
  rate.end_epoch(0.6);  // counts from the start again
  EXPECT_EQ(rate.at(0), 0.4);
  rate.end_epoch(0.4);
  rate.end_epoch(0.41);
  EXPECT_EQ(rate.at(0), 0.4);
  rate.end_epoch(0.41);
  EXPECT_EQ(rate.at(0), 0.2);
}

TEST(LearningRate, PlateauGoesOnFromItsState) {
  LearningRate straight("plateau", 0.8, 100), first("plateau", 0.8, 100), second("plateau", 0.8, 100);
  const double losses[] = {0.9, 0.7, 0.8, 0.75, 0.72, 0.71, 0.6, 0.65};
  for (int i = 0; i < 8; ++i) {
    straight.end_epoch(losses[i]);
    (i < 3 ? first : second).end_epoch(losses[i]);
    if (i == 2) second.restore(first.state());
  }
  EXPECT_EQ(second.at(0), straight.at(0));
  EXPECT_EQ(second.state().best, straight.state().best);
  EXPECT_EQ(second.state().worse, straight.state().worse);
}

}  // namespace
}  // namespace paceline
