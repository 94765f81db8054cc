#include "paceline/data/synthetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "paceline/data/data_test_support.hpp"

namespace paceline {
namespace {

std::string refusal_of(const std::string& text) {
  return refusal([&] { parse_synthetic(text); });
}

SyntheticOptions small() { return {.shape = {2, 9, 5}, .classes = 4, .train = 400, .test = 100, .seed = 5}; }

// Of the test examples, those that are nearest to their own class's mean over the training examples.
double nearest_mean_accuracy(const DataSplit& split) {
  const std::size_t pixels = split.train.shape().pixels();
  const auto classes = static_cast<std::size_t>(split.train.classes());
  std::vector<std::vector<double>> means(classes, std::vector<double>(pixels));
  std::vector<double> counts(classes);
  for (std::size_t i = 0; i < split.train.size(); ++i) {
    const auto label = static_cast<std::size_t>(split.train.label(i));
    for (std::size_t j = 0; j < pixels; ++j) means[label][j] += split.train.pixels(i)[j];
    counts[label] += 1;
  }
  double right = 0;
  for (std::size_t i = 0; i < split.test.size(); ++i) {
    std::vector<double> distances(classes);
    for (std::size_t c = 0; c < classes; ++c) {
      for (std::size_t j = 0; j < pixels; ++j) {
        const double difference = means[c][j] / counts[c] - split.test.pixels(i)[j];
        distances[c] += difference * difference;
      }
    }
    right += std::min_element(distances.begin(), distances.end()) - distances.begin() == split.test.label(i) ? 1 : 0;
  }
  return right / static_cast<double>(split.test.size());
}

TEST(ParseSynthetic, EveryPartIsOptionalAndInAnyOrder) {
  EXPECT_EQ(parse_synthetic("").train, 60'000U);
  const SyntheticOptions all = parse_synthetic("seed=9,3x32x30,test=7,classes=100,train=8");
  EXPECT_EQ(all.shape, (Shape{3, 32, 30}));
  EXPECT_EQ(all.classes, 100);
  EXPECT_EQ(all.train, 8U);
  EXPECT_EQ(all.test, 7U);
  EXPECT_EQ(all.seed, 9U);
}

TEST(ParseSynthetic, WhatMakesNoSenseIsRefused) {
  EXPECT_TRUE(says(refusal_of("clases=3"), "'clases=3' is not known"));
  EXPECT_TRUE(says(refusal_of("28x28"), "'28x28' is neither a shape such as 1x28x28 nor"));
  EXPECT_TRUE(says(refusal_of("1x0x28"), "'1x0x28' needs a number from 1 to 4096"));
  EXPECT_TRUE(says(refusal_of("1x28x28y"), "'1x28x28y' needs a number from 1 to 4096"));
  EXPECT_TRUE(says(refusal_of("classes=1"), "needs a number from 2 to 256"));
  EXPECT_TRUE(says(refusal_of("classes=257"), "needs a number from 2 to 256"));
  EXPECT_TRUE(says(refusal_of("train=-1"), "'train=-1' needs a number from 1 to 1000000000"));
  EXPECT_TRUE(says(refusal_of("test=0"), "needs a number from 1"));
  EXPECT_TRUE(says(refusal_of("test=1e3"), "needs a number from 1"));
  EXPECT_TRUE(says(refusal_of("test="), "needs a number from 1"));
  EXPECT_TRUE(says(refusal_of("seed=99999999999999999999"), "needs a number from 0"));
  EXPECT_TRUE(says(refusal_of("test=1,test=2"), "'test=2' gives the test a second time"));
  EXPECT_TRUE(says(refusal_of("test=1,"), "',' is followed by nothing"));
  EXPECT_TRUE(says(refusal_of(",test=1"), "'' is neither a shape"));
  EXPECT_TRUE(says(refusal_of("64x4096x4096,train=1000000000,test=1000000000"), "more than 4294967296"));
}

TEST(Synthetic, HasTheSizesAskedFor) {
  const DataSplit split = make_synthetic(small());
  EXPECT_EQ(split.train.size(), 400U);
  EXPECT_EQ(split.test.size(), 100U);
  EXPECT_EQ(split.test.shape(), (Shape{2, 9, 5}));
  EXPECT_EQ(split.train.classes(), 4);
  std::set<int> labels(split.train.all_labels().begin(), split.train.all_labels().end());
  EXPECT_EQ(labels.size(), 4U);
}

TEST(Synthetic, DependsOnTheSeedAndNothingElse) {
  SyntheticOptions options = small();
  const std::uint64_t print = make_synthetic(options).fingerprint;
  EXPECT_EQ(make_synthetic(options).fingerprint, print);
  EXPECT_EQ(print, 5163753624022444831ULL);  // on every machine, in every version
  options.seed = 6;
  EXPECT_NE(make_synthetic(options).fingerprint, print);
}

TEST(Synthetic, IsLearnableButNoExampleIsLikeAnother) {
  const DataSplit split = make_synthetic({.train = 1000, .test = 200});
  EXPECT_GE(nearest_mean_accuracy(split), 0.97);
  std::set<std::string> different;
  for (std::size_t i = 0; i < split.test.size(); ++i) {
    different.emplace(split.test.pixels(i).begin(), split.test.pixels(i).end());
  }
  EXPECT_EQ(different.size(), split.test.size());
}

}  // namespace
}  // namespace paceline
