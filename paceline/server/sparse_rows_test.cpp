#include "paceline/server/sparse_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <unordered_map>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/core/reduce.hpp"

namespace paceline {
namespace {

using Keys = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

// One row at a time, in an unordered_map: what SparseRows must be.
class Reference {
 public:
  explicit Reference(const SparseRowsOptions& options) : options_(options) {}

  void add(const Keys& keys, const Floats& gradients, double scale) {
    std::map<std::uint64_t, Floats> sums;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      Floats& sum = sums.try_emplace(keys[i], options_.width, 0.0f).first->second;
      for (std::size_t j = 0; j < options_.width; ++j) sum[j] += gradients[i * options_.width + j];
    }
    for (const auto& [key, sum] : sums) {
      Row& row = rows_.try_emplace(key, make(key)).first->second;
      apply(options_.rule, {.values = row.values.data(),
                            .state = row.state.data(),
                            .gradient = sum.data(),
                            .count = options_.width,
                            .state_spacing = options_.width,
                            .step = ++row.steps,
                            .scale = scale});
      for (float& value : row.values) value = rounded(value);
    }
  }

  Floats read(std::uint64_t key) const {
    const auto found = rows_.find(key);
    return found == rows_.end() ? make(key).values : found->second.values;
  }
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    Floats values;
    Floats state;
    std::uint64_t steps = 0;
  };

  Row make(std::uint64_t key) const {
    Row row{Floats(options_.width), Floats(2 * options_.width, 0.0f)};
    options_.initial.fill(key, row.values);
    for (float& value : row.values) value = rounded(value);
    return row;
  }
  float rounded(float value) const {
    if (options_.dtype == DType::f16) return to_float(to_f16(value));
    if (options_.dtype == DType::bf16) return to_float(to_bf16(value));
    return value;
  }

  SparseRowsOptions options_;
  std::unordered_map<std::uint64_t, Row> rows_;
};

Floats some_floats(Random& random, std::size_t count) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(2 * random.uniform() - 1);
  return values;
}

// Few enough to come again, from both ends of all there are.
Keys some_keys(Random& random, std::size_t count, std::uint64_t most) {
  Keys keys(count);
  for (std::uint64_t& key : keys) key = random.below(most) - most / 2;
  return keys;
}

void expect_same(SparseRows& rows, const Reference& reference, const Keys& keys, double tolerance) {
  const std::size_t width = rows.options().width;
  Floats read(keys.size() * width);
  rows.read(keys, read);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Floats expected = reference.read(keys[i]);
    for (std::size_t j = 0; j < width; ++j) {
      ASSERT_NEAR(read[i * width + j], expected[j], tolerance * std::max(1.0f, std::abs(expected[j])))
          << "key " << keys[i] << " element " << j;
    }
  }
}

struct Layout {
  std::size_t width;
  const char* rule;
  DType dtype = DType::f32;
  const char* initial = "zero";
};
constexpr Layout kLayouts[] = {{1, "add"},
                               {1, "sgd:0.1", DType::f32, "normal:0.5"},
                               {1, "sgd:0.1,weight_decay=0.1"},
                               {1, "adam:0.01"},
                               {1, "ftrl:0.1,l1=0.01"},
                               {3, "adagrad:0.1", DType::f32, "uniform:0.1"},
                               {5, "adam:0.01"},
                               {13, "add"},
                               {14, "add"},
                               {64, "momentum:0.1"},
                               {1, "add", DType::f16},
                               {1, "adam:0.1", DType::bf16},
                               {7, "sgd:0.1", DType::f16, "uniform:1"},
                               {40, "rmsprop:0.1", DType::bf16}};

SparseRowsOptions options_of(const Layout& layout) {
  return {.width = layout.width,
          .dtype = layout.dtype,
          .rule = parse_rule(layout.rule),
          .initial = parse_initializer(layout.initial, 7)};
}

// Halves differ by one in their last place where a sum was rounded otherwise.
double tolerance_of(DType dtype) { return dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 2e-3 : 2e-2; }

TEST(SparseRows, RandomOperationsGiveWhatAMapGives) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(std::string(layout.rule) + " width " + std::to_string(layout.width) + " " +
                 std::string(name(layout.dtype)));
    const SparseRowsOptions options = options_of(layout);
    SparseRows rows(options);
    Reference reference(options);
    Random random(3);
    for (const std::size_t count : {0u, 1u, 2u, 17u, 300u, 1000u, 255u, 256u, 257u, 5000u}) {
      const Keys keys = some_keys(random, count, 3000);
      const Floats gradients = some_floats(random, count * options.width);
      const AddOutcome outcome = rows.add(keys, gradients, 0.5);
      reference.add(keys, gradients, 0.5);
      ASSERT_LE(outcome.applied, count);
      ASSERT_TRUE(outcome.refused.empty());
      ASSERT_EQ(rows.size(), reference.size());
      ASSERT_NO_FATAL_FAILURE(expect_same(rows, reference, keys, tolerance_of(options.dtype)));
      ASSERT_NO_FATAL_FAILURE(expect_same(rows, reference, some_keys(random, 500, 6000), tolerance_of(options.dtype)));
    }
  }
}

TEST(SparseRows, KeysAreNeverSpecial) {
  SparseRows rows({.width = 1});
  const Keys keys = {0, ~std::uint64_t{0}, 1, std::uint64_t{1} << 63, 0x9e3779b97f4a7c15ULL, 0};
  Floats read(6);
  rows.read(keys, read);
  EXPECT_EQ(read, Floats(6, 0.0f));
  EXPECT_EQ(rows.size(), 0u);
  const AddOutcome outcome = rows.add(keys, Floats{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(outcome.created, 5u);
  rows.read(keys, read);
  EXPECT_EQ(read, (Floats{7, 2, 3, 4, 5, 7}));
}

TEST(SparseRows, GrowsFromOneBlockToManyAndLosesNothing) {
  for (const std::size_t width : {1u, 2u, 10u, 40u}) {
    SparseRows rows({.width = width});
    const std::size_t count = 40000;
    Keys keys(count);
    Floats gradients(count * width);
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = i << 20;
      std::fill_n(gradients.begin() + static_cast<std::ptrdiff_t>(i * width), width, static_cast<float>(i));
    }
    const std::size_t empty_bytes = rows.memory_bytes();
    EXPECT_EQ(rows.add(keys, gradients).created, count);
    EXPECT_EQ(rows.size(), count);
    EXPECT_GT(rows.memory_bytes(), empty_bytes + count * width * sizeof(float));
    Floats read(count * width);
    rows.read(keys, read);
    EXPECT_EQ(read, gradients);
  }
}

TEST(SparseRows, DuplicatesAreSummedAndAppliedOnce) {
  SparseRows rows({.width = 1, .rule = parse_rule("adagrad:1,eps=0")});
  EXPECT_EQ(rows.add(Keys{5, 6, 5}, Floats{1, 1, 3}).applied, 2u);
  Floats read(2);
  rows.read(Keys{5, 6}, read);
  EXPECT_EQ(read, (Floats{-1, -1}));  // 4 / sqrt(16), not 1 / sqrt(1) + 3 / sqrt(10)
}

TEST(SparseRows, ResolvedKeysReadAndAddLikePlainOnesThroughGrowthAndExpiry) {
  for (const char* rule : {"add", "adam:0.1"}) {
    for (const std::size_t width : {1u, 20u}) {
      const SparseRowsOptions options{.width = width, .rule = parse_rule(rule), .time_to_live = 5};
      SparseRows rows(options);
      Reference reference(options);
      Random random(4);
      const Keys keys = some_keys(random, 700, 1000);
      ResolvedKeys resolved = rows.resolve(keys);
      EXPECT_FALSE(resolved.distinct);
      for (std::uint32_t clock = 0; clock < 12; ++clock) {
        rows.advance(clock);
        const Floats gradients = some_floats(random, keys.size() * width);
        rows.add(resolved, gradients, 0.5);
        reference.add(keys, gradients, 0.5);
        const Keys others = some_keys(random, 2000, 1 << 20);
        const Floats more = some_floats(random, others.size() * width);
        rows.add(others, more);
        reference.add(others, more, 1);
        Floats read(keys.size() * width);
        rows.read(resolved, read);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          ASSERT_NEAR(read[i * width], reference.read(keys[i])[0], 1e-4) << rule << " " << clock;
        }
        const std::size_t dropped = rows.expire(1000);
        EXPECT_EQ(dropped > 0, clock >= 5) << clock;
      }
    }
  }
}

TEST(SparseRows, InitialValuesDependOnSeedAndKeyAlone) {
  const auto options = [](std::uint64_t seed) {
    return SparseRowsOptions{.width = 4, .initial = parse_initializer("normal:1", seed)};
  };
  SparseRows first(options(1)), second(options(1)), other(options(2));
  first.add(Keys{1, 2, 3}, Floats(12, 0.0f));
  second.add(Keys{3}, Floats(4, 0.0f));
  Floats a(4), b(4), c(4), d(4);
  first.read(Keys{3}, a);
  second.read(Keys{3}, b);
  other.read(Keys{3}, c);
  second.read(Keys{2}, d);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a, d);
  first.read(Keys{2}, a);
  EXPECT_EQ(a, d);
}

TEST(SparseRows, AnAddBeyondTheBudgetIsRefusedKeyByKeyAndSaysSo) {
  for (const std::size_t width : {1u, 100u}) {
    const std::size_t budget = 600000;
    SparseRows rows({.width = width, .memory_budget = budget});
    Keys keys(100000);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    const AddOutcome outcome = rows.add(keys, Floats(keys.size() * width, 1.0f));
    EXPECT_GT(outcome.refused.size(), 0u);
    EXPECT_EQ(outcome.created + outcome.refused.size(), keys.size());
    EXPECT_EQ(outcome.applied, outcome.created);
    EXPECT_EQ(rows.size(), outcome.created);
    EXPECT_LE(rows.memory_bytes(), budget);
    EXPECT_GT(rows.size() * (width * 4 + 16), budget / 3);
    EXPECT_NE(outcome.complaint.find("no room for new rows, the first with key " + std::to_string(outcome.refused[0])),
              std::string::npos);
    Floats read(outcome.refused.size() * width);
    rows.read(outcome.refused, read);
    EXPECT_EQ(read, Floats(read.size(), 0.0f));
    // What is there can still be changed.
    EXPECT_EQ(rows.add(keys, Floats(keys.size() * width, 1.0f)).applied, outcome.created);
    rows.read(outcome.refused, read);
    EXPECT_EQ(read, Floats(read.size(), 0.0f));
  }
}

TEST(SparseRows, RowsThatNobodyUsesExpireAndTheirMemoryIsUsedAgain) {
  for (const std::size_t width : {1u, 30u}) {
    SparseRows rows({.width = width, .time_to_live = 10});
    Keys keys(5000);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    rows.advance(1);
    rows.add(keys, Floats(keys.size() * width, 1.0f));
    const std::size_t bytes = rows.memory_bytes();
    rows.advance(6);
    rows.add(std::span(keys).first(1000), Floats(1000 * width, 1.0f));
    Floats read(1000 * width);
    rows.read(std::span(keys).subspan(1000, 1000), read);
    rows.advance(10);
    EXPECT_EQ(rows.expire(1000), 0u);
    rows.advance(11);
    std::size_t dropped = 0;
    for (int call = 0; call < 1000; ++call) dropped += rows.expire(1);
    EXPECT_EQ(dropped, 3000u);
    EXPECT_EQ(rows.size(), 2000u);
    rows.read(std::span(keys).first(1000), read);
    EXPECT_EQ(read, Floats(read.size(), 2.0f));
    rows.read(std::span(keys).subspan(1500, 1000), read);
    EXPECT_EQ(read[500 * width - 1], 1.0f);
    EXPECT_EQ(read[500 * width], 0.0f);
    rows.add(keys, Floats(keys.size() * width, 1.0f));
    rows.read(std::span(keys).subspan(4000), read);
    EXPECT_EQ(read, Floats(read.size(), 1.0f));
    EXPECT_LE(rows.memory_bytes(), bytes + bytes / 8);
  }
}

TEST(SparseRows, AKeyGetsItsRowWithTheNthPush) {
  SparseRows rows({.width = 2, .rule = parse_rule("sgd:1"), .admit_after = 3});
  Floats read(2);
  for (int push = 1; push <= 4; ++push) {
    const AddOutcome outcome = rows.add(Keys{42}, Floats{-1, -1});
    EXPECT_EQ(outcome.withheld, push < 3 ? 1u : 0u);
    EXPECT_EQ(outcome.applied, push < 3 ? 0u : 1u);
    EXPECT_EQ(rows.size(), push < 3 ? 0u : 1u);
    rows.read(Keys{42}, read);
    EXPECT_EQ(read[0], push < 3 ? 0.0f : static_cast<float>(push - 2));
  }
}

TEST(SparseRows, ImpossibleOptionsAreRefused) {
  EXPECT_THROW(SparseRows({.width = 0}), Error);
  EXPECT_THROW(SparseRows({.dtype = DType::f64}), Error);
  EXPECT_THROW(SparseRows({.memory_budget = 1}), Error);
  EXPECT_THROW(SparseRows({.admit_after = 256}), Error);
  EXPECT_THROW(SparseRows({.admit_after = 0}), Error);
}

// All rows, by key.
std::map<std::uint64_t, std::pair<Floats, Floats>> all_rows(SparseSnapshot& snapshot, std::size_t width,
                                                            std::size_t most) {
  std::map<std::uint64_t, std::pair<Floats, Floats>> all;
  for (RowBatch batch = snapshot.next(most); !batch.keys.empty(); batch = snapshot.next(most)) {
    EXPECT_LE(batch.keys.size(), most);
    const std::size_t state = batch.state.size() / batch.keys.size();
    for (std::size_t i = 0; i < batch.keys.size(); ++i) {
      const auto value = batch.values.begin() + static_cast<std::ptrdiff_t>(i * width);
      const auto kept = batch.state.begin() + static_cast<std::ptrdiff_t>(i * state);
      const auto row = std::pair(Floats(value, value + static_cast<std::ptrdiff_t>(width)),
                                 Floats(kept, kept + static_cast<std::ptrdiff_t>(state)));
      EXPECT_TRUE(all.emplace(batch.keys[i], row).second) << "key " << batch.keys[i] << " came twice";
    }
  }
  return all;
}

TEST(SparseSnapshot, HoldsTheMomentWhileAddsGrowthAndExpiryGoOn) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(std::string(layout.rule) + " width " + std::to_string(layout.width));
    SparseRowsOptions options = options_of(layout);
    options.time_to_live = 3;
    SparseRows rows(options);
    Random random(5);
    const auto push = [&](std::size_t count) {
      const Keys keys = some_keys(random, count, 20000);
      rows.add(keys, some_floats(random, count * options.width));
    };
    push(4000);
    SparseSnapshot at_once = rows.snapshot();
    const auto expected = all_rows(at_once, options.width, 1000000);
    EXPECT_EQ(expected.size(), rows.size());
    SparseSnapshot early = rows.snapshot();
    for (std::uint32_t clock = 1; clock < 6; ++clock) {
      rows.advance(clock);
      push(5000);
      rows.expire(2);
    }
    SparseSnapshot late = rows.snapshot();
    push(3000);
    EXPECT_EQ(all_rows(early, options.width, 77), expected);
    EXPECT_NE(all_rows(late, options.width, 100000), expected);
  }
}

TEST(SparseSnapshot, IsConsistentWhenReadAlternatelyWithAdds) {
  SparseRows rows({.width = 1});
  Keys keys(30000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i * 977;
  rows.add(keys, Floats(keys.size(), 1.0f));
  const std::size_t bytes = rows.memory_bytes();
  {
    SparseSnapshot snapshot = rows.snapshot();
    std::size_t seen = 0;
    for (RowBatch batch = snapshot.next(500); !batch.keys.empty(); batch = snapshot.next(500)) {
      EXPECT_EQ(batch.values, Floats(batch.keys.size(), 1.0f));
      seen += batch.keys.size();
      rows.add(keys, Floats(keys.size(), 1.0f));
    }
    EXPECT_EQ(seen, keys.size());
  }
  EXPECT_EQ(rows.memory_bytes(), bytes);
}

TEST(SparseSnapshot, PutMakesTheSameTableWithItsStateAndSteps) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.rule);
    const SparseRowsOptions options = options_of(layout);
    SparseRows rows(options), loaded(options);
    Random random(6);
    const Keys keys = some_keys(random, 3000, 5000);
    const Floats gradients = some_floats(random, keys.size() * options.width);
    rows.add(keys, gradients);
    rows.add(keys, gradients);
    SparseSnapshot snapshot = rows.snapshot();
    loaded.put(snapshot.next(1000));
    for (RowBatch batch = snapshot.next(1000); !batch.keys.empty(); batch = snapshot.next(1000)) {
      EXPECT_EQ(loaded.put(batch).created, batch.keys.size());
      EXPECT_EQ(loaded.put(batch).created, 0u);
    }
    // The steps, too: the next update is the same.
    rows.add(keys, gradients);
    loaded.add(keys, gradients);
    SparseSnapshot one = rows.snapshot();
    SparseSnapshot two = loaded.snapshot();
    EXPECT_EQ(all_rows(one, options.width, 100000), all_rows(two, options.width, 100000));
  }
}

}  // namespace
}  // namespace paceline
