#include "paceline/torch/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/torch/complaint_test_support.hpp"

namespace paceline {
namespace {

TEST(LearningRate, ConstantStays) {
  LearningRate rate(RateSpec{.schedule = "constant", .base = 0.3, .total_steps = 100});
  for (const int step : {0, 1, 50, 99, 1000}) EXPECT_EQ(rate.at(step), 0.3);
  for (int epoch = 0; epoch < 5; ++epoch) rate.end_epoch(7);
  EXPECT_EQ(rate.at(100), 0.3);
}

TEST(LearningRate, CosineFallsToZeroAtTheEnd) {
  const LearningRate rate(RateSpec{.schedule = "cosine", .base = 0.4, .total_steps = 100});
  EXPECT_DOUBLE_EQ(rate.at(0), 0.4);
  EXPECT_NEAR(rate.at(50), 0.2, 1e-12);
  EXPECT_NEAR(rate.at(100), 0, 1e-12);
  EXPECT_NEAR(rate.at(150), 0, 1e-12);  // a run that was resumed with more epochs
  for (int step = 0; step < 100; ++step) EXPECT_GT(rate.at(step), rate.at(step + 1));
}

TEST(LearningRate, CosineOfARunWithoutStepsIsANumber) {
  EXPECT_DOUBLE_EQ(LearningRate({.schedule = "cosine", .base = 0.4, .total_steps = 0}).at(0), 0.4);
}

TEST(LearningRate, PlateauHalvesAfterTwoEpochsThatAreNoBetter) {
  LearningRate rate(RateSpec{.schedule = "plateau", .base = 0.8, .total_steps = 100});
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
  const RateSpec spec{.schedule = "plateau", .base = 0.8, .total_steps = 100};
  LearningRate straight(spec), first(spec), second(spec);
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

// ---- other schedules, and warm-up; values from the formulas, by hand

TEST(LearningRate, StepFallsAfterSoManyEpochs) {
  const LearningRate rate({.schedule = "step:2,0.5", .base = 0.8, .total_steps = 100, .steps_per_epoch = 10});
  for (const auto& [step, expected] : {std::pair{0, 0.8}, {19, 0.8}, {20, 0.4}, {39, 0.4}, {40, 0.2}, {99, 0.05}})
    EXPECT_DOUBLE_EQ(rate.at(step), expected) << step;
}

TEST(LearningRate, StepAloneFallsAtEachThirdOfTheRun) {
  const LearningRate rate({.schedule = "step", .base = 1, .total_steps = 90, .steps_per_epoch = 7});
  EXPECT_DOUBLE_EQ(rate.at(29), 1);
  EXPECT_DOUBLE_EQ(rate.at(30), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(59), 0.1);
  EXPECT_NEAR(rate.at(60), 0.01, 1e-15);
  EXPECT_NEAR(rate.at(89), 0.01, 1e-15);
  EXPECT_DOUBLE_EQ(LearningRate({.schedule = "step", .base = 1, .total_steps = 0}).at(0), 1);
  EXPECT_DOUBLE_EQ(LearningRate({.schedule = "step:1", .base = 1, .total_steps = 9, .steps_per_epoch = 3}).at(3), 0.1);
}

TEST(LearningRate, ExponentialFallsEachEpoch) {
  const LearningRate rate({.schedule = "exponential:0.5", .base = 0.8, .total_steps = 100, .steps_per_epoch = 10});
  for (const auto& [step, expected] : {std::pair{0, 0.8}, {9, 0.8}, {10, 0.4}, {25, 0.2}, {35, 0.1}})
    EXPECT_DOUBLE_EQ(rate.at(step), expected) << step;
}

TEST(LearningRate, InverseSqrtHasItsBaseInTheFirstStep) {
  const LearningRate rate({.schedule = "inverse-sqrt", .base = 0.6, .total_steps = 100});
  for (const auto& [step, expected] : {std::pair{0, 0.6}, {3, 0.3}, {8, 0.2}, {99, 0.06}})
    EXPECT_DOUBLE_EQ(rate.at(step), expected) << step;
}

TEST(LearningRate, InverseSqrtHasItsBaseAfterTheWarmUp) {
  const LearningRate rate({.schedule = "inverse-sqrt", .base = 0.6, .total_steps = 1000, .warmup_steps = 4});
  for (const auto& [step, expected] : {std::pair{0, 0.15}, {1, 0.3}, {3, 0.6}, {15, 0.3}, {35, 0.2}, {399, 0.06}})
    EXPECT_DOUBLE_EQ(rate.at(step), expected) << step;
}

TEST(LearningRate, CosineBeginsWhereTheWarmUpEnds) {
  const LearningRate rate({.schedule = "cosine", .base = 0.4, .total_steps = 110, .warmup_steps = 10});
  EXPECT_DOUBLE_EQ(rate.at(0), 0.04);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(9), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(10), 0.4);
  EXPECT_NEAR(rate.at(60), 0.2, 1e-12);
  EXPECT_NEAR(rate.at(85), 0.4 * (1 - std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(rate.at(110), 0, 1e-12);
  EXPECT_NEAR(rate.at(200), 0, 1e-12);
}

// No step of the warm-up, nor the one that leaves it, changes the rate by more than the warm-up's own slope.
TEST(LearningRate, WarmUpFlowsIntoEverySchedule) {
  for (const std::string schedule : {"constant", "step:3", "exponential:0.9", "inverse-sqrt", "cosine", "plateau"}) {
    const LearningRate rate(
        {.schedule = schedule, .base = 1, .total_steps = 400, .steps_per_epoch = 40, .warmup_steps = 50});
    EXPECT_DOUBLE_EQ(rate.at(0), 1.0 / 50) << schedule;
    const bool falls_meanwhile = schedule == "exponential:0.9";
    EXPECT_DOUBLE_EQ(rate.at(49), falls_meanwhile ? 0.9 : 1) << schedule;
    EXPECT_LE(std::abs(rate.at(50) - rate.at(49)), 1.0 / 50) << schedule;
    EXPECT_LE(rate.at(50), rate.at(49)) << schedule;
    if (falls_meanwhile) continue;
    for (int step = 0; step < 49; ++step) EXPECT_NEAR(rate.at(step + 1) - rate.at(step), 0.02, 1e-12) << schedule;
  }
}

TEST(LearningRate, PlateauHalvesWhatTheWarmUpReached) {
  LearningRate rate({.schedule = "plateau", .base = 0.8, .total_steps = 100, .warmup_steps = 4});
  for (int epoch = 0; epoch < 3; ++epoch) rate.end_epoch(1);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(50), 0.4);
}

// ---- words

TEST(RateSpec, SchedulesAreReadWithTheirWords) {
  EXPECT_EQ(parse_schedule("step").every_epochs, 0);
  EXPECT_EQ(parse_schedule("step").factor, 0.1);
  EXPECT_EQ(parse_schedule("step:30").every_epochs, 30);
  EXPECT_EQ(parse_schedule("step:30,0.5").factor, 0.5);
  EXPECT_EQ(parse_schedule("exponential:0.97").factor, 0.97);
  for (const std::string& name : known_schedules()) EXPECT_NE(schedule_help().find(name), std::string::npos) << name;
}

TEST(RateSpec, BadSchedulesAreRefusedWithAListOfTheGood) {
  for (const std::string bad : {"", "linear", "step:", "step:0", "step:-1", "step:x", "step:3,", "step:3,0", "step:3,2",
                                "step:3,0.1,4", "exponential", "exponential:", "exponential:0", "exponential:1.1",
                                "exponential:nan", "cosine:3", "constant:", "plateau:2"}) {
    EXPECT_NE(complaint([&] { parse_schedule(bad); }).find("inverse-sqrt, cosine, plateau"), std::string::npos) << bad;
  }
  EXPECT_NE(complaint([] { parse_schedule("exponential"); }).find("needs its factor"), std::string::npos);
}

TEST(RateSpec, WhatCannotBeIsRefused) {
  EXPECT_EQ(complaint([] { check_rate({.base = 0.1, .total_steps = 400, .warmup_steps = 400}); }),
            "a warm-up of 400 steps leaves nothing of a run of 400");
  EXPECT_EQ(complaint([] { check_rate({.base = 0.1, .total_steps = 400, .warmup_steps = 399}); }), "");
  EXPECT_EQ(complaint([] { check_rate({.base = -1}); }), "a learning rate is at least 0, not -1");
  EXPECT_NE(complaint([] { check_rate({.base = double(NAN)}); }), "");
  EXPECT_NE(complaint([] { check_rate({.base = 1, .warmup_steps = -1}); }), "");
  EXPECT_NE(complaint([] { check_rate({.base = 1, .steps_per_epoch = 0}); }), "");
  EXPECT_NE(complaint([] { LearningRate rate({.schedule = "linear", .base = 1}); }), "");
}

TEST(RateScale, FollowsTheBatchOfAllWorkers) {
  EXPECT_DOUBLE_EQ(parse_rate_scale("none").apply(0.1, 8192), 0.1);
  EXPECT_DOUBLE_EQ(parse_rate_scale("linear:256").apply(0.1, 8192), 3.2);  // Goyal et al. 2017
  EXPECT_DOUBLE_EQ(parse_rate_scale("sqrt:128").apply(0.1, 2048), 0.4);
  EXPECT_DOUBLE_EQ(parse_rate_scale("linear").apply(0.1, kReferenceBatch), 0.1);
  EXPECT_DOUBLE_EQ(parse_rate_scale("sqrt").apply(0.1, 4 * kReferenceBatch), 0.2);
  for (const std::string bad : {"", "none:3", "linear:", "linear:0", "linear:x", "sqrt:1,2", "cubic"})
    EXPECT_NE(complaint([&] { parse_rate_scale(bad); }).find("none, linear[:BATCH] or sqrt[:BATCH]"), std::string::npos)
        << bad;
}

}  // namespace
}  // namespace paceline
