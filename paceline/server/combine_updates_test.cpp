#include "paceline/server/combine_updates.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

const TableSpec kDense{.name = "d", .kind = TableSpec::Kind::dense, .rows = 20, .width = 2};
const TableSpec kSparse{.name = "s", .width = 2};

RowChanges of_range(int worker, RowRange range, float value) {
  return {.worker = worker, .range = range, .keys = {}, .values = std::vector<float>(range.size() * 2, value)};
}

TEST(CombineUpdates, SumsAreTakenInWorkerOrderWhateverTheOrderOfArrival) {
  const float big = 1 << 25;
  std::vector<RowChanges> updates;
  updates.push_back(of_range(2, {0, 1}, 1));
  updates.push_back(of_range(0, {0, 1}, big));
  updates.push_back(of_range(1, {0, 1}, -big));
  const auto sums = combine_updates(kDense, std::move(updates));
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].values, std::vector<float>(2, 1));  // (big - big) + 1
}

TEST(CombineUpdates, OfADenseTableNoRowIsSentThatNobodyHasUpdated) {
  std::vector<RowChanges> updates;
  updates.push_back(of_range(0, {0, 3}, 1));
  updates.push_back(of_range(1, {2, 5}, 10));
  updates.push_back(of_range(1, {5, 6}, 7));
  updates.push_back(of_range(0, {9, 9}, 0));
  updates.push_back(of_range(0, {12, 14}, -0.0F));
  const auto sums = combine_updates(kDense, std::move(updates));
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].range, (RowRange{0, 6}));
  EXPECT_EQ(sums[0].values, (std::vector<float>{1, 1, 1, 1, 11, 11, 10, 10, 10, 10, 7, 7}));
  EXPECT_EQ(sums[1].range, (RowRange{12, 14}));
  EXPECT_TRUE(std::signbit(sums[1].values[0]));
}

TEST(CombineUpdates, OfASparseTableEachKeyComesOnceWithTheSumOfItsUpdates) {
  Random random(1, 2);
  std::map<std::uint64_t, float> expected;
  std::vector<RowChanges> updates;
  for (int worker = 3; worker >= 0; --worker) {
    RowChanges& update = updates.emplace_back();
    update.worker = worker;
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t key = random.below(60);
      const auto value = static_cast<float>(random.below(9));
      update.keys.push_back(key);
      update.values.insert(update.values.end(), {value, -value});
      expected[key] += value;
    }
  }
  const auto sums = combine_updates(kSparse, std::move(updates));
  ASSERT_EQ(sums.size(), 1U);
  ASSERT_EQ(sums[0].keys.size(), expected.size());
  for (std::size_t i = 0; i < sums[0].keys.size(); ++i) {
    EXPECT_EQ(sums[0].values[2 * i], expected.at(sums[0].keys[i]));
    EXPECT_EQ(sums[0].values[2 * i + 1], -expected.at(sums[0].keys[i]));
  }
}

TEST(CombineUpdates, WhatAReadLacksIsAddedToTheRowsThatItNamesAndThatCount) {
  std::vector<float> read(8);
  add_to_rows(kDense, {.range = {3, 7}}, read, of_range(0, {0, 5}, 1), [](std::uint64_t row) { return row != 3; });
  EXPECT_EQ(read, (std::vector<float>{0, 0, 1, 1, 0, 0, 0, 0}));
  RowChanges change;
  change.keys = {5, 9, 7};
  change.values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint64_t> keys = {7, 5, 7, 8};
  read.assign(8, 0);
  add_to_rows(kSparse, {.keys = keys}, read, change, [](std::uint64_t key) { return key != 5; });
  EXPECT_EQ(read, (std::vector<float>{5, 6, 0, 0, 5, 6, 0, 0}));
}

TEST(CombineUpdates, ListedRowsOfADenseTableAreARangeWithZerosBetween) {
  const std::vector<std::uint64_t> rows = {6, 4, 6};
  const RowChanges spread = spread_rows(rows, std::vector<float>{1, 2, 3}, 1);
  EXPECT_EQ(spread.range, (RowRange{4, 7}));
  EXPECT_EQ(spread.values, (std::vector<float>{2, 0, 4}));
}

}  // namespace
}  // namespace paceline
