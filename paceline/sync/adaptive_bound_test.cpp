// What bound comes of which waiting. Waiting is made by a model of workers here, not by a clock.
#include "paceline/sync/adaptive_bound.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

using Step = AdaptiveBound::Step;

std::vector<AdaptiveBound::Change> feed(AdaptiveBound& bound, int windows, const Step& step) {
  std::vector<AdaptiveBound::Change> changes;
  for (int i = 0; i < 16 * windows; ++i) {
    if (auto change = bound.after(step)) changes.push_back(*change);
  }
  return changes;
}

TEST(AdaptiveBound, WhoNeverWaitsStaysAtZero) {
  AdaptiveBound bound;
  EXPECT_TRUE(feed(bound, 100, {.seconds = 1, .waited = 0}).empty());
  EXPECT_EQ(bound.bound(), 0);
}

TEST(AdaptiveBound, WhoWaitsGetsALargerBoundAndTheReason) {
  AdaptiveBound bound;
  const auto changes = feed(bound, 1, {.seconds = 1, .waited = 0.25});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].from, 0);
  EXPECT_EQ(changes[0].to, 1);
  EXPECT_EQ(changes[0].why, "waited 25% of the last 16 steps for others");
}

TEST(AdaptiveBound, ABoundThatHelpsStaysUntilItIsCalm) {
  AdaptiveBound bound;
  feed(bound, 1, {.seconds = 1, .waited = 0.25});
  EXPECT_TRUE(feed(bound, 20, {.seconds = 1, .waited = 0.03}).empty());
  EXPECT_EQ(bound.bound(), 1);
  const auto changes = feed(bound, 4, {.seconds = 1, .waited = 0});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].to, 0);
  EXPECT_EQ(changes[0].why, "hardly waited for others in the last 64 steps");
}

// The bound that is just large enough would otherwise be left and found again for ever.
TEST(AdaptiveBound, AttemptsToLowerItBecomeRare) {
  AdaptiveBound bound;
  int changes = 0;
  for (int window = 0; window < 1000; ++window)
    changes += static_cast<int>(feed(bound, 1, {.seconds = 1, .waited = bound.bound() == 0 ? 0.2 : 0}).size());
  EXPECT_LT(changes, 20);
  EXPECT_EQ(bound.bound(), 1);
}

TEST(AdaptiveBound, WhereNoBoundHelpsItGoesBackAndSaysSo) {
  AdaptiveBound bound;
  std::vector<AdaptiveBound::Change> changes;
  for (int window = 0; window < 4; ++window) {
    for (auto& change : feed(bound, 1, {.seconds = 1, .waited = 0.6})) changes.push_back(change);
  }
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_EQ(changes[2].to, 4);
  EXPECT_EQ(changes[3].to, 0);
  EXPECT_EQ(changes[3].why, "a larger bound has not made waiting shorter: somebody is slower all the time");
  EXPECT_TRUE(feed(bound, 8, {.seconds = 1, .waited = 0.6}).empty()) << "left alone for a while";
  EXPECT_EQ(feed(bound, 1, {.seconds = 1, .waited = 0.6}).size(), 1u) << "then tried again";
}

TEST(AdaptiveBound, ALossThatRisesHalvesIt) {
  AdaptiveBound bound;
  for (const double waited : {0.5, 0.3, 0.2}) feed(bound, 1, {.seconds = 1, .waited = waited, .loss = 1});
  EXPECT_EQ(bound.bound(), 4);
  const auto changes = feed(bound, 1, {.seconds = 1, .waited = 0.06, .loss = 1.5});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].to, 2);
  EXPECT_EQ(changes[0].why, "the loss has risen from 1 to 1.5 since the bound was raised");
}

TEST(AdaptiveBound, ALossThatNobodyTellsDoesNotCount) {
  AdaptiveBound bound;
  for (const double waited : {0.5, 0.3, 0.2}) feed(bound, 1, {.seconds = 1, .waited = waited});
  EXPECT_EQ(bound.bound(), 4);
}

TEST(AdaptiveBound, ItHasAnEnd) {
  AdaptiveBound bound({.most = 8});
  double waited = 0.9;
  for (int window = 0; window < 12; ++window, waited *= 0.75) feed(bound, 1, {.seconds = 1, .waited = waited});
  EXPECT_LE(bound.bound(), 8);
  EXPECT_GT(bound.bound(), 0);
}

}  // namespace
}  // namespace paceline
