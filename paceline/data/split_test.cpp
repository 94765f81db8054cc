#include "paceline/data/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "paceline/data/data_test_support.hpp"

namespace paceline {
namespace {

// 200 examples of one pixel each, which is the example's number.
Dataset numbered() {
  Bytes pixels;
  for (int i = 0; i < 200; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
  return Dataset({}, 2, pixels, Bytes(200, 1), "numbered");
}

Bytes numbers(const Dataset& data) { return Bytes(data.all_pixels().begin(), data.all_pixels().end()); }

TEST(Normalisation, BringsThePixelsToMeanZeroAndDeviationOne) {
  const Dataset data = numbered();
  const Normalisation normalisation = normalisation_of(data);
  double sum = 0;
  double squares = 0;
  for (const double pixel : data.all_pixels()) {
    const double value = (pixel / 255 - static_cast<double>(normalisation.mean)) * normalisation.scale;
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 200, 0, 1e-6);
  EXPECT_NEAR(squares / 200, 1, 1e-6);
}

TEST(Normalisation, OfEqualPixelsDoesNotDivideByZero) {
  const Normalisation normalisation = normalisation_of(Dataset({}, 1, Bytes(77, 201), Bytes(77), "grey"));
  EXPECT_FLOAT_EQ(normalisation.mean, 201.0F / 255);
  EXPECT_EQ(normalisation.scale, 1.0F);
}

TEST(Normalisation, GivesEachOfSeveralChannelsItsOwn) {
  const Dataset data({2, 1, 2}, 1, {0, 51, 7, 7, 102, 153, 7, 7}, {0, 0}, "two channels");
  const Normalisation normalisation = normalisation_of(data);
  ASSERT_EQ(normalisation.channels.size(), 2U);
  EXPECT_FLOAT_EQ(normalisation.of(0).mean, 0.3F);
  EXPECT_FLOAT_EQ(normalisation.of(0).scale, 1 / std::sqrt(0.05F));
  EXPECT_FLOAT_EQ(normalisation.of(1).mean, 7 / 255.0F);
  EXPECT_EQ(normalisation.of(1).scale, 1.0F);
}

TEST(Normalisation, OfOneChannelIsThatOfAllPixels) {
  const Normalisation normalisation = normalisation_of(numbered());
  EXPECT_TRUE(normalisation.channels.empty());
  EXPECT_EQ(normalisation.of(0).mean, normalisation.mean);
  EXPECT_EQ(normalisation.of(0).scale, normalisation.scale);
}

TEST(Divide, DrawsAShareOfTheNumbers) {
  const Division division = divide(50, 0.3, 4, "fifty");
  EXPECT_EQ(division.drawn.size(), 15U);
  std::vector<std::uint32_t> all(50);
  std::merge(division.rest.begin(), division.rest.end(), division.drawn.begin(), division.drawn.end(), all.begin());
  for (std::uint32_t i = 0; i < 50; ++i) EXPECT_EQ(all[i], i);
  EXPECT_TRUE(says(refusal([] { divide(3, 0.01, 4, "three"); }), "the 3 examples of three would leave one part empty"));
}

TEST(Fingerprint, DependsOnEverythingButTheName) {
  const Dataset one({}, 3, {1, 2}, {0, 1}, "one");
  const std::uint64_t print = fingerprint_of(one, one);
  EXPECT_EQ(print, fingerprint_of(Dataset({}, 3, {1, 2}, {0, 1}, "other name"), one));
  EXPECT_NE(print, fingerprint_of(Dataset({}, 3, {1, 3}, {0, 1}, "other pixel"), one));
  EXPECT_NE(print, fingerprint_of(Dataset({}, 3, {1, 2}, {0, 2}, "other label"), one));
  EXPECT_NE(print, fingerprint_of(Dataset({}, 3, {2, 1}, {1, 0}, "other order"), one));
  EXPECT_NE(print, fingerprint_of(Dataset({}, 4, {1, 2}, {0, 1}, "other classes"), one));
  EXPECT_NE(print, fingerprint_of(one, Dataset({}, 3, {1, 3}, {0, 1}, "other test")));
  const Dataset wide({.width = 2}, 3, {1, 2, 3, 4}, {0, 1}, "wide");
  const Dataset high({.height = 2}, 3, {1, 2, 3, 4}, {0, 1}, "high");
  EXPECT_NE(fingerprint_of(wide, wide), fingerprint_of(high, high));
}

// A checkpoint from another version of paceline must still be recognised.
TEST(Fingerprint, StaysTheSameFromVersionToVersion) {
  EXPECT_EQ(fingerprint_of(numbered(), numbered()), 11998022336975912630ULL);
}

TEST(Subset, HasTheseExamplesInThisOrder) {
  const std::uint32_t chosen[] = {4, 0, 4};
  const Dataset data = small_data(5);
  const Dataset part = subset(data, chosen);
  ASSERT_EQ(part.size(), 3U);
  EXPECT_EQ(part.pixels(0)[3], data.pixels(4)[3]);
  EXPECT_EQ(part.label(1), data.label(0));
  EXPECT_EQ(part.shape(), data.shape());
  EXPECT_TRUE(says(refusal([&] { subset(data, {}); }), "no examples"));
}

TEST(HoldOut, DividesTheExamplesInTwo) {
  for (const double share : {0.005, 0.1, 0.5, 0.995}) {
    const auto [rest, held] = hold_out(numbered(), share, 3);
    EXPECT_EQ(held.size(), static_cast<std::size_t>(std::llround(share * 200)));
    const Bytes kept = numbers(rest);
    const Bytes out = numbers(held);
    Bytes merged(200);
    std::merge(kept.begin(), kept.end(), out.begin(), out.end(), merged.begin());
    EXPECT_EQ(merged, numbers(numbered()));  // also: both are in order
  }
}

TEST(HoldOut, DependsOnTheSeedOnly) {
  const auto held = [](std::uint64_t seed) { return numbers(hold_out(numbered(), 0.1, seed).second); };
  EXPECT_EQ(held(1), held(1));
  EXPECT_NE(held(1), held(2));
}

TEST(HoldOut, EveryExampleHasTheSameChance) {
  std::map<int, int> often;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    for (const int number : numbers(hold_out(numbered(), 0.1, seed).second)) ++often[number];
  }
  EXPECT_EQ(often.size(), 200U);
  for (const auto& [number, count] : often) EXPECT_NEAR(count, 200, 70) << number;  // five standard deviations
}

TEST(HoldOut, AShareThatLeavesNothingIsRefused) {
  for (const double share : {0.0, 1.0, -0.1, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(says(refusal([&] { hold_out(numbered(), share, 1); }), "must be above 0 and below 1"));
  }
  for (const double share : {0.001, 0.999}) {
    EXPECT_TRUE(
        says(refusal([&] { hold_out(numbered(), share, 1); }), "of the 200 examples of numbered would leave one part"));
  }
}

TEST(MakeSplit, OtherClassesInTheTestAreRefused) {
  const Dataset two({}, 2, {1}, {0}, "two");
  const Dataset three({}, 3, {1}, {0}, "three");
  EXPECT_TRUE(says(refusal([&] { make_split(two, three); }),
                   "two has images of 1x1x1 in 2 classes, but three has images of 1x1x1 in 3"));
}

}  // namespace
}  // namespace paceline
