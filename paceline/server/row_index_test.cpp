#include "paceline/server/row_index.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

using Keys = std::vector<std::uint64_t>;

TEST(RowIndex, FindsEveryKeyOfEveryPatternAndNoOther) {
  const auto of_pattern = [](int pattern, std::uint64_t i) -> std::uint64_t {
    switch (pattern) {
      case 0: return i;
      case 1: return i << 32;
      case 2: return i << 44;
      case 3: return i * 0x10001;
      case 4: return ~i;
      default: return mix(i, 5);
    }
  };
  for (const std::size_t slot_bytes : {16u, 32u, 64u}) {
    for (int pattern = 0; pattern < 6; ++pattern) {
      RowIndex index(slot_bytes);
      const std::uint64_t count = 50000;
      Keys keys;
      for (std::uint64_t i = 0; i < count; ++i) {
        keys.push_back(of_pattern(pattern, i));
        RowSlot* slot = index.insert(keys.back(), true);
        ASSERT_NE(slot, nullptr) << "pattern " << pattern << " key " << i;
        slot->word = static_cast<std::uint32_t>(i);
      }
      std::vector<RowSlot*> slots(count);
      ASSERT_EQ(index.find(keys, slots), count);
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(slots[i]->word, i);
      for (std::uint64_t i = count; i < 2 * count; ++i) ASSERT_EQ(index.find(of_pattern(pattern, i)), nullptr);
      // Blocks are at least three eighths full but for chance: the hash spreads these keys.
      EXPECT_LT(index.blocks() * (65472 / slot_bytes), count * 8 / 3 * 5 / 4 + 65472 / slot_bytes) << pattern;
    }
  }
}

TEST(RowIndex, ABlockThatMayNotSplitFillsUpAndThenRefuses) {
  RowIndex index(16);
  std::uint64_t key = 0;
  while (index.insert(key, false) != nullptr) ++key;
  EXPECT_EQ(key, 4092u / 16 * 15);
  EXPECT_EQ(index.size(), key);
  EXPECT_GT(index.growth_for(key), 0u);
  EXPECT_NE(index.insert(key, true), nullptr);
  for (std::uint64_t i = 0; i <= key; ++i) EXPECT_NE(index.find(i), nullptr);
}

TEST(RowIndex, GrowthIsWhatOneMoreKeyTakes) {
  RowIndex index(32);
  for (std::uint64_t key = 0; key < 20000; ++key) {
    const std::size_t before = index.memory_bytes();
    const std::size_t growth = index.growth_for(key);
    index.insert(key, true);
    ASSERT_LE(index.memory_bytes(), before + 4 * growth);
    if (growth == 0) {
      ASSERT_EQ(index.memory_bytes(), before);
    }
  }
}

TEST(RowIndex, PositionsThatHaveMovedAreFoundAnew) {
  RowIndex index(16);
  Keys keys = {7, 8, 9};
  for (const std::uint64_t key : keys) index.insert(key, true);
  std::vector<RowSlot*> slots(3);
  index.find(keys, slots);
  std::vector<RowPosition> positions;
  for (const RowSlot* slot : slots) positions.push_back(index.position_of(slot));
  for (std::uint64_t key = 100; key < 30000; ++key) index.insert(key, true);
  for (std::uint32_t block = 0; block < index.blocks(); ++block) {
    index.sweep(block, [](const RowSlot& slot) { return slot.key == 8; });
  }
  const std::vector<RowPosition> old = positions;
  EXPECT_EQ(index.find(keys, positions, slots), 2u);
  EXPECT_EQ(slots[0], index.find(7));
  EXPECT_EQ(slots[1], nullptr);
  EXPECT_EQ(slots[2], index.find(9));
  EXPECT_EQ(positions[1].byte, 0u);
  EXPECT_EQ(index.position_of(slots[0]).byte, positions[0].byte);
}

TEST(RowIndex, SweepingKeepsTheOthersReachable) {
  RowIndex index(16);
  for (std::uint64_t key = 0; key < 20000; ++key) index.insert(key, true);
  std::size_t dropped = 0;
  for (std::uint32_t block = 0; block < index.blocks(); ++block) {
    dropped += index.sweep(block, [](const RowSlot& slot) { return slot.key % 3 == 0; });
  }
  EXPECT_EQ(dropped, 6667u);
  EXPECT_EQ(index.size(), 20000u - dropped);
  for (std::uint64_t key = 0; key < 20000; ++key) ASSERT_EQ(index.find(key) != nullptr, key % 3 != 0) << key;
}

TEST(RowIndex, HeldBlocksStayAsTheyWere) {
  RowIndex index(16);
  for (std::uint64_t key = 0; key < 5000; ++key) index.insert(key, true)->word = 1;
  const std::vector<RowBlock*> held = index.hold_all();
  const std::size_t bytes = index.memory_bytes();
  for (std::uint64_t key = 0; key < 5000; key += 2) index.own(index.find(key))->word = 2;
  for (std::uint64_t key = 5000; key < 20000; ++key) index.insert(key, true)->word = 3;
  std::set<std::uint64_t> seen;
  for (RowBlock* block : held) {
    index.visit(block, 0, [&](RowSlot& slot) {
      EXPECT_EQ(slot.word, 1u);
      return seen.insert(slot.key).second;
    });
  }
  EXPECT_EQ(seen.size(), 5000u);
  EXPECT_EQ(*seen.rbegin(), 4999u);
  for (RowBlock* block : held) index.release(block);
  EXPECT_GT(index.memory_bytes(), bytes);
  for (std::uint64_t key = 0; key < 20000; ++key) {
    ASSERT_EQ(index.find(key)->word, key >= 5000 ? 3u : key % 2 == 0 ? 2u : 1u) << key;
  }
}

}  // namespace
}  // namespace paceline
