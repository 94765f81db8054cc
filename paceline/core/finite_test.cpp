#include "paceline/core/finite.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "paceline/core/reduce.hpp"

namespace paceline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kCounts[] = {0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 257};

// One bad value at every place of buffers of every length.
template <class T, class Make>
void find_each(const std::vector<float>& bad, Make make) {
  for (const std::size_t count : kCounts) {
    std::vector<T> values(count, make(-1.5f));
    EXPECT_TRUE(all_finite(view(values))) << count;
    for (std::size_t i = 0; i < count; ++i) {
      for (const float value : bad) {
        values[i] = make(value);
        EXPECT_FALSE(all_finite(view(values))) << value << " at " << i << " of " << count;
      }
      values[i] = make(65504.0f);  // the largest f16 is a number
      EXPECT_TRUE(all_finite(view(values)));
    }
  }
}

TEST(Finite, FindsABadValueAtEveryPlaceInEveryType) {
  const std::vector<float> bad = {kInfinity, -kInfinity, std::nanf("")};
  find_each<float>(bad, [](float x) { return x; });
  find_each<double>(bad, [](float x) { return static_cast<double>(x); });
  find_each<f16_t>(bad, [](float x) { return to_f16(x); });
  find_each<bf16_t>(bad, [](float x) { return to_bf16(x); });
}

TEST(Finite, ExtremesAreNumbers) {
  std::vector<float> values(100, std::numeric_limits<float>::max());
  values[3] = std::numeric_limits<float>::denorm_min();
  values[99] = std::numeric_limits<float>::lowest();
  EXPECT_TRUE(all_finite(view(values)));
}

TEST(Finite, IntegersAreAlwaysFinite) {
  std::vector<std::int32_t> values(100, 0x7f800000);
  EXPECT_TRUE(all_finite(view(values)));
}

}  // namespace
}  // namespace paceline
