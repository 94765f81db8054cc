// The small parts that sparse rows are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/core/reduce.hpp"
#include "paceline/server/fold_keys.hpp"
#include "paceline/server/half_rows.hpp"
#include "paceline/server/push_counter.hpp"
#include "paceline/server/row_blocks.hpp"
#include "paceline/server/row_format.hpp"
#include "paceline/server/row_initializer.hpp"
#include "paceline/server/row_store.hpp"

namespace paceline {
namespace {

using Floats = std::vector<float>;

TEST(RowInitializer, HasTheMomentsItPromises) {
  const std::size_t count = 200000;
  for (const char* text : {"uniform:0.3", "normal:0.3"}) {
    const RowInitializer initial = parse_initializer(text, 3);
    double sum = 0, squares = 0;
    Floats row(5);
    for (std::uint64_t key = 0; key < count / 5; ++key) {
      initial.fill(key, row);
      for (const float value : row) {
        sum += value;
        squares += double{value} * value;
      }
    }
    const double deviation = std::string(text).front() == 'u' ? 0.3 / std::sqrt(3.0) : 0.3;
    EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.003) << text;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(count)), deviation, 0.003) << text;
  }
}

TEST(RowInitializer, TextAndParsingAreEachOthersInverseAndNonsenseIsRefused) {
  for (const char* text : {"zero", "uniform:0.05", "normal:1e-05"}) EXPECT_EQ(parse_initializer(text).text(), text);
  for (const char* text : {"", "one", "uniform", "uniform:", "uniform:-1", "normal:x", "normal:inf", "zero:1"}) {
    EXPECT_THROW(parse_initializer(text), Error) << text;
  }
}

TEST(PushCounter, NeverCountsTooLittleAndSeldomTooMuch) {
  PushCounter counter(1 << 16);
  std::size_t wrong = 0;
  for (unsigned push = 1; push <= 3; ++push) {
    for (std::uint64_t key = 0; key < 4000; ++key) {
      const unsigned counted = counter.count(key);
      ASSERT_GE(counted, push);
      wrong += counted > push ? 1 : 0;
    }
  }
  EXPECT_LT(wrong, 12000u / 50);
}

TEST(PushCounter, ForgetsAfterTwoTurnsAndEndsAt255) {
  PushCounter counter(64);
  EXPECT_EQ(counter.count(1), 1u);
  counter.turn();
  EXPECT_EQ(counter.count(1), 2u);
  counter.turn();
  EXPECT_EQ(counter.count(1), 2u);
  for (int i = 0; i < 600; ++i) EXPECT_GE(counter.count(1), 2u);
  counter.turn();
  counter.turn();
  EXPECT_EQ(counter.count(1), 1u);
}

TEST(KeyFolder, SumsInTheOrderOfTheList) {
  KeyFolder folder;
  const std::vector<std::uint64_t> keys = {3, 0, 3, ~std::uint64_t{0}, 0, 3};
  EXPECT_TRUE(folder.fold(keys, Floats{1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60}, 2));
  EXPECT_EQ(std::vector<std::uint64_t>(folder.keys().begin(), folder.keys().end()),
            (std::vector<std::uint64_t>{3, 0, ~std::uint64_t{0}}));
  EXPECT_EQ(Floats(folder.gradients().begin(), folder.gradients().end()), (Floats{10, 100, 7, 70, 4, 40}));
  EXPECT_FALSE(folder.fold(std::vector<std::uint64_t>{1, 2, 0}, Floats{1, 2, 3}, 1));
  EXPECT_FALSE(folder.fold({}, {}, 1));
}

TEST(BlockPool, BlocksAreAlignedZeroAndTheirOwn) {
  for (const std::size_t bytes : {kBlockBytes, std::size_t{4} << 20}) {
    BlockPool pool(bytes);
    std::set<RowBlock*> blocks;
    for (int i = 0; i < 40; ++i) {
      RowBlock* block = pool.take();
      EXPECT_TRUE(blocks.insert(block).second);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % bytes, 0u);
      EXPECT_EQ(block->bytes()[bytes - 1], std::byte{0});
      block->bytes()[bytes - 1] = std::byte{1};
    }
    EXPECT_EQ(pool.used_bytes(), 40 * bytes);
    RowBlock* first = *blocks.begin();
    pool.release(first);
    EXPECT_EQ(pool.take(), first);
    EXPECT_EQ(first->bytes()[bytes - 1], std::byte{0});
  }
}

TEST(BlockPool, ACopyHasWhatTheBlockHadAndTheLastHolderFreesIt) {
  BlockPool pool;
  RowBlock* block = pool.take();
  block->bytes()[100] = std::byte{7};
  ++block->holders;
  RowBlock* copy = pool.copy_of(block);
  EXPECT_NE(copy, block);
  EXPECT_EQ(copy->bytes()[100], std::byte{7});
  EXPECT_EQ(copy->holders, 1u);
  EXPECT_EQ(block->holders, 1u);
  EXPECT_EQ(pool.used_bytes(), 2 * kBlockBytes);
  pool.release(block);
  EXPECT_EQ(pool.used_bytes(), kBlockBytes);
}

TEST(RowStore, RowsOfAllSizesAreApartAndUsedAgain) {
  for (const std::size_t bytes : {4u, 60u, 256u, 772u, 100000u}) {
    RowStore store(bytes);
    std::vector<std::uint32_t> numbers;
    for (std::uint8_t i = 0; i < 200; ++i) {
      numbers.push_back(store.take());
      std::byte* row = store.row(numbers.back());
      for (std::size_t b = 0; b < bytes; ++b) ASSERT_EQ(row[b], std::byte{0});
      std::fill_n(row, bytes, std::byte{i});
    }
    for (std::uint8_t i = 0; i < 200; ++i) {
      ASSERT_EQ(store.row(numbers[i])[0], std::byte{i});
      ASSERT_EQ(store.row(numbers[i])[bytes - 1], std::byte{i});
    }
    store.put_back(numbers[17]);
    EXPECT_EQ(store.growth(), 0u);
    EXPECT_EQ(store.take(), numbers[17]);
    EXPECT_EQ(store.row(numbers[17])[bytes - 1], std::byte{0});
  }
}

TEST(RowFormat, SmallRowsLieInTheirSlots) {
  const auto slot_bytes = [](std::size_t width, RuleKind kind) {
    return RowFormat(width, DType::f32, kind).slot_bytes();
  };
  EXPECT_EQ(slot_bytes(1, RuleKind::add), 16u);
  EXPECT_EQ(slot_bytes(1, RuleKind::adagrad), 32u);
  EXPECT_EQ(slot_bytes(1, RuleKind::adam), 32u);
  EXPECT_EQ(slot_bytes(13, RuleKind::add), 64u);
  EXPECT_TRUE(RowFormat(13, DType::f32, RuleKind::add).in_slot());
  EXPECT_FALSE(RowFormat(14, DType::f32, RuleKind::add).in_slot());
  EXPECT_EQ(slot_bytes(14, RuleKind::add), 16u);
}

TEST(HalfRows, WidenAndRoundLikeTheReferenceForAllCounts) {
  Random random(1);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::size_t count : {0u, 1u, 3u, 8u, 9u, 100u}) {
      Floats values(count), back(count);
      for (float& value : values) value = static_cast<float>(random.uniform() * 20 - 10);
      std::vector<std::uint16_t> halves(count);
      narrow(dtype, values.data(), reinterpret_cast<std::byte*>(halves.data()), count);
      widen(dtype, reinterpret_cast<const std::byte*>(halves.data()), back.data(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = dtype == DType::f16 ? to_float(to_f16(values[i])) : to_float(to_bf16(values[i]));
        EXPECT_EQ(back[i], expected);
      }
    }
  }
}

}  // namespace
}  // namespace paceline
