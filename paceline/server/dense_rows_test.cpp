#include "paceline/server/dense_rows.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

using Floats = std::vector<float>;

// Values that begin with a cache line.
class Range {
 public:
  explicit Range(std::size_t count) : lines_(count / 16 + 1), count_(count) {}
  std::span<float> floats() { return {lines_.front().values, count_}; }

 private:
  struct alignas(64) Line {
    float values[16] = {};
  };
  std::vector<Line> lines_;
  std::size_t count_;
};

Floats some_floats(Random& random, std::size_t count) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(2 * random.uniform() - 1);
  return values;
}

TEST(DenseRows, UpdatesOfPartsGiveWhatOneUpdateOfTheWholeGives) {
  const std::size_t count = 10000;
  for (const char* rule : {"add", "momentum:0.1", "adam:0.1", "ftrl:0.1"}) {
    Random random(1);
    Range whole_range(count), parts_range(count);
    DenseRows whole(whole_range.floats(), 10, parse_rule(rule));
    DenseRows parts(parts_range.floats(), 10, parse_rule(rule));
    EXPECT_EQ(whole.rows(), count / 10);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const Floats gradient = some_floats(random, count);
      whole.apply({.first = 0, .gradient = gradient, .step = step, .scale = 0.5});
      std::size_t first = 0;
      for (const std::size_t length : {0u, 1u, 7u, 4096u, 5u, 5891u}) {
        parts.apply(
            {.first = first, .gradient = std::span(gradient).subspan(first, length), .step = step, .scale = 0.5});
        first += length;
      }
      ASSERT_EQ(first, count);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(whole.values()[i], parts.values()[i], 1e-5) << rule << " " << i;
    }
  }
}

TEST(DenseRows, KeepsWhatTheRangeHeldAndChangesNothingElse) {
  Range range(100);
  for (std::size_t i = 0; i < 100; ++i) range.floats()[i] = static_cast<float>(i);
  DenseRows rows(range.floats(), 1, parse_rule("add"));
  rows.apply({.first = 10, .gradient = Floats(5, 1.0f)});
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(range.floats()[i], static_cast<float>(i) + (i >= 10 && i < 15 ? 1.0f : 0.0f));
  }
}

TEST(DenseRows, AnEmptyRangeIsARange) {
  DenseRows rows({}, 4, parse_rule("adam"));
  rows.apply({.first = 0, .gradient = {}});
  EXPECT_TRUE(rows.snapshot().next(10).values.empty());
}

struct Whole {
  Floats values, state;
  bool operator==(const Whole&) const = default;
};

// Put together from pieces.
Whole read(DenseSnapshot& snapshot, std::size_t count, std::size_t arrays, std::size_t most) {
  Whole whole{Floats(count), Floats(count * arrays)};
  std::size_t at = 0;
  for (DenseSnapshot::Piece piece = snapshot.next(most); !piece.values.empty(); piece = snapshot.next(most)) {
    EXPECT_EQ(piece.first, at);
    EXPECT_LE(piece.values.size(), most);
    EXPECT_EQ(piece.state.size(), piece.values.size() * arrays);
    std::copy(piece.values.begin(), piece.values.end(), whole.values.data() + at);
    for (std::size_t a = 0; a < arrays; ++a) {
      std::copy_n(piece.state.data() + a * piece.values.size(), piece.values.size(),
                  whole.state.data() + a * count + at);
    }
    at += piece.values.size();
  }
  EXPECT_EQ(at, count);
  return whole;
}

TEST(DenseSnapshot, HoldsTheMomentWhileUpdatesGoOn) {
  const std::size_t count = 70000;  // more than four blocks
  Random random(2);
  Range range(count);
  DenseRows rows(range.floats(), 1, parse_rule("adam:0.1"));
  const auto push = [&] {
    const std::size_t first = random.below(count);
    const std::size_t length = random.below(std::min<std::size_t>(count - first, 20000) + 1);
    rows.apply({.first = first, .gradient = some_floats(random, length)});
  };
  for (int i = 0; i < 20; ++i) push();
  DenseSnapshot at_once = rows.snapshot();
  const Whole expected = read(at_once, count, 2, count);
  DenseSnapshot early = rows.snapshot();
  DenseSnapshot moved = rows.snapshot();
  for (int i = 0; i < 20; ++i) push();
  EXPECT_EQ(read(early, count, 2, 999), expected);
  DenseSnapshot late = rows.snapshot();
  DenseSnapshot kept = std::move(moved);
  push();
  EXPECT_EQ(read(kept, count, 2, 100000), expected);
  EXPECT_NE(read(late, count, 2, 5000), expected);
}

TEST(DenseSnapshot, IsConsistentWhenReadAlternatelyWithUpdates) {
  const std::size_t count = 40000;
  Range range(count);
  DenseRows rows(range.floats(), 1, parse_rule("add"));
  DenseSnapshot snapshot = rows.snapshot();
  std::size_t seen = 0;
  for (DenseSnapshot::Piece piece = snapshot.next(1234); !piece.values.empty(); piece = snapshot.next(1234)) {
    EXPECT_EQ(piece.values, Floats(piece.values.size(), 0.0f));
    seen += piece.values.size();
    rows.apply({.first = 0, .gradient = Floats(count, 1.0f)});
  }
  EXPECT_EQ(seen, count);
}

TEST(DenseSnapshot, PutMakesTheSameRangeWithItsState) {
  const std::size_t count = 20000;
  Random random(3);
  Range first_range(count), second_range(count);
  DenseRows first(first_range.floats(), 1, parse_rule("ftrl:0.1"));
  DenseRows second(second_range.floats(), 1, parse_rule("ftrl:0.1"));
  const Floats gradient = some_floats(random, count);
  first.apply({.first = 0, .gradient = gradient});
  DenseSnapshot snapshot = first.snapshot();
  for (DenseSnapshot::Piece piece = snapshot.next(3000); !piece.values.empty(); piece = snapshot.next(3000)) {
    second.put(piece.first, piece.values, piece.state);
  }
  first.apply({.first = 0, .gradient = gradient});
  second.apply({.first = 0, .gradient = gradient});
  DenseSnapshot one = first.snapshot();
  DenseSnapshot two = second.snapshot();
  EXPECT_EQ(read(one, count, 2, 5000), read(two, count, 2, 5000));
}

}  // namespace
}  // namespace paceline
