#include <gtest/gtest.h>

#include <set>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/group.hpp"
#include "paceline/core/random.hpp"
#include "paceline/core/tensor_view.hpp"

namespace paceline {
namespace {

TEST(Group, WorldHoldsEveryRankInOrder) {
  const Group world = Group::world(5);
  EXPECT_EQ(world.size(), 5);
  for (Rank rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(world.at(rank), rank);
    EXPECT_EQ(world.index_of(rank), rank);
  }
  EXPECT_EQ(world.index_of(5), -1);
}

TEST(Group, SuccessorsAndChildrenHaveContextsOfTheirOwn) {
  const Group world = Group::world(4);
  std::set<std::uint64_t> contexts = {world.context()};
  Group next = world;
  for (int epoch = 1; epoch < 50; ++epoch) {
    next = next.next_epoch({0, 1, 3});
    EXPECT_EQ(next.epoch(), static_cast<std::uint32_t>(epoch));
    EXPECT_TRUE(contexts.insert(next.context()).second);
  }
  for (std::uint64_t ordinal = 0; ordinal < 20; ++ordinal) {
    for (std::int64_t color = -10; color < 10; ++color) {
      EXPECT_TRUE(contexts.insert(world.child({0}, ordinal, color).context()).second);
    }
  }
}

TEST(Random, AStreamIsRepeatedByItsSeedAndSharesNothingWithOthers) {
  Random a(1, 0), again(1, 0), other(1, 1);
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto draw = a();
    EXPECT_EQ(draw, again());
    same += draw == other() ? 1 : 0;
  }
  EXPECT_EQ(same, 0);
}

TEST(Random, UniformDrawsAreUniform) {
  Random random(7);
  double sum = 0;
  int buckets[10] = {};
  for (int i = 0; i < 100'000; ++i) {
    const double draw = random.uniform();
    sum += draw;
    ++buckets[static_cast<int>(draw * 10)];
    ASSERT_LT(random.below(17), 17u);
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
  for (const int count : buckets) EXPECT_NEAR(count, 10'000, 400);
}

TEST(Clock, AfterSaturates) {
  const SteadyClock clock;
  EXPECT_EQ(clock.after(Duration::max()), kNever);
  EXPECT_GT(clock.after(std::chrono::seconds(1)), clock.now());
}

TEST(Error, CarriesCodeRankAndSentence) {
  const Error error(Code::peer_lost, 3, "rank 3 has died");
  EXPECT_EQ(error.code(), Code::peer_lost);
  EXPECT_EQ(error.rank(), 3);
  EXPECT_STREQ(error.what(), "rank 3 has died");
  EXPECT_EQ(std::string(system_error("cannot open x", 2).what()), "cannot open x: No such file or directory");
}

TEST(TensorView, DescribesAVector) {
  std::vector<float> numbers(10);
  const TensorView v = view(numbers);
  EXPECT_EQ(v.count, 10);
  EXPECT_EQ(v.bytes(), 40u);
  EXPECT_EQ(v.dtype, DType::f32);
  EXPECT_EQ(v.data, numbers.data());
}

}  // namespace
}  // namespace paceline
