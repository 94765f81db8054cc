#include "paceline/data/dataset.hpp"

#include <gtest/gtest.h>

#include "paceline/data/data_test_support.hpp"

namespace paceline {
namespace {

std::string refusal_of(Shape shape, int classes, std::size_t pixels, Bytes labels) {
  return refusal([&] { Dataset(shape, classes, Bytes(pixels), std::move(labels), "set"); });
}

TEST(Dataset, GivesItsExamples) {
  const Dataset data({.channels = 2, .height = 1, .width = 2}, 3, {1, 2, 3, 4, 5, 6, 7, 8}, {2, 0}, "two");
  EXPECT_EQ(data.size(), 2U);
  EXPECT_EQ(data.name(), "two");
  EXPECT_EQ(to_string(data.shape()), "2x1x2");
  EXPECT_EQ(Bytes(data.pixels(1).begin(), data.pixels(1).end()), (Bytes{5, 6, 7, 8}));
  EXPECT_EQ(data.label(0), 2);
  EXPECT_EQ(data.all_pixels().size(), 8U);
}

TEST(Dataset, IsEmptyByDefault) {
  EXPECT_EQ(Dataset().size(), 0U);
  EXPECT_TRUE(Dataset().all_pixels().empty());
  EXPECT_TRUE(Dataset().all_labels().empty());
}

TEST(Dataset, ACopySharesTheMemory) {
  const Dataset data = small_data(3);
  const Dataset copy = data;
  EXPECT_EQ(copy.pixels(2).data(), data.pixels(2).data());
}

TEST(Dataset, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_EQ(refusal_of({}, 10, 0, {}), "set has no examples");
  EXPECT_TRUE(says(refusal_of({}, 10, 3, {1, 2}), "set: 2 labels of examples of 1x1x1 need 2 pixels, but there are 3"));
  EXPECT_TRUE(says(refusal_of({}, 10, 3, {1, 2, 10}), "set: the label of example 2 is 10, but there are 10 classes"));
  EXPECT_TRUE(says(refusal_of({.channels = 0}, 10, 1, {1}), "examples of 0x1x1 are impossible"));
  EXPECT_TRUE(says(refusal_of({.height = 5000}, 10, 1, {1}), "examples of 1x5000x1 are impossible"));
  EXPECT_TRUE(says(refusal_of({}, 0, 1, {0}), "0 classes, but it must be 1 to 256"));
  EXPECT_EQ(refusal_of({}, 256, 1, {255}), "accepted");
}

}  // namespace
}  // namespace paceline
