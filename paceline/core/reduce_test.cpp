#include "paceline/core/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

// The slow, obvious reference: one element, folded in order, in the type in which the rules say it is computed.
template <class T>
auto widen(T value) {
  if constexpr (std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>) {
    return to_float(value);
  } else {
    return value;
  }
}

template <class T, class Wide>
T narrow(Wide value) {
  if constexpr (std::is_same_v<T, f16_t>) {
    return to_f16(value);
  } else if constexpr (std::is_same_v<T, bf16_t>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

template <class Wide>
Wide apply(ReduceOp op, Wide a, Wide b) {
  using Wrapping = std::conditional_t<std::is_integral_v<Wide>, std::uint64_t, Wide>;
  switch (op) {
    case ReduceOp::min: return a < b ? a : b;
    case ReduceOp::max: return a > b ? a : b;
    case ReduceOp::product: return static_cast<Wide>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
    default: return static_cast<Wide>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
  }
}

template <class T>
T reference(ReduceOp op, const std::vector<std::vector<T>>& inputs, std::size_t i, int n) {
  auto sum = widen(inputs[0][i]);
  for (std::size_t s = 1; s < inputs.size(); ++s) sum = apply(op, sum, widen(inputs[s][i]));
  if (op == ReduceOp::average) sum = static_cast<decltype(sum)>(sum / static_cast<decltype(sum)>(n));
  return narrow<T>(sum);
}

template <class T>
T draw(Random& random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random());
  } else {
    return narrow<T>(static_cast<decltype(widen(T{}))>(random.uniform() * 8 - 4));
  }
}

template <class T>
class Reduce : public testing::Test {};
using Elements = testing::Types<f16_t, bf16_t, float, double, std::int8_t, std::uint8_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(Reduce, Elements);

TYPED_TEST(Reduce, FoldMatchesTheReferenceForAllOperationsSizesAndSources) {
  using T = TypeParam;
  Random random(1);
  for (const ReduceOp op : kAllReduceOps) {
    for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 31u, 64u, 1000u}) {
      for (const std::size_t sources : {1u, 2u, 3u, 5u}) {
        {
          std::vector<std::vector<T>> inputs(sources, std::vector<T>(count));
          for (auto& input : inputs) {
            for (T& value : input) value = draw<T>(random);
          }
          auto results = inputs;
          std::vector<const std::byte*> from;
          std::vector<std::byte*> to;
          for (auto& result : results) {
            from.push_back(reinterpret_cast<std::byte*>(result.data()));
            to.push_back(reinterpret_cast<std::byte*>(result.data()));
          }
          const int n = static_cast<int>(sources);
          fold({.op = op,
                .dtype = dtype_of<T>::value,
                .sources = from,
                .targets = to,
                .bytes = count * sizeof(T),
                .divide_by = n});
          for (std::size_t i = 0; i < count; ++i) {
            const T expected = reference(op, inputs, i, n);
            for (const auto& result : results) {
              ASSERT_EQ(std::memcmp(&result[i], &expected, sizeof(T)), 0)
                  << name(op) << " element " << i << " of " << count << ", " << sources << " sources";
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(Reduce, CombineOfUnalignedBuffersMatchesTheReference) {
  using T = TypeParam;
  Random random(2);
  for (const ReduceOp op : kAllReduceOps) {
    std::vector<std::vector<T>> inputs(2, std::vector<T>(101));
    for (auto& input : inputs) {
      for (T& value : input) value = draw<T>(random);
    }
    auto into = inputs[0];
    combine_kernel(op, dtype_of<T>::value)(reinterpret_cast<std::byte*>(&into[1]),
                                           reinterpret_cast<const std::byte*>(&inputs[1][1]), 100 * sizeof(T));
    EXPECT_EQ(std::memcmp(&into[0], &inputs[0][0], sizeof(T)), 0);
    for (std::size_t i = 1; i < 101; ++i) {
      const T expected = reference(op == ReduceOp::average ? ReduceOp::sum : op, inputs, i, 1);
      ASSERT_EQ(std::memcmp(&into[i], &expected, sizeof(T)), 0) << name(op) << " element " << i;
    }
  }
}

TEST(HalfPrecision, EveryF16SurvivesTheWayThroughFloat) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const f16_t half{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(half))) continue;
    ASSERT_EQ(to_f16(to_float(half)).bits, half.bits);
  }
}

TEST(HalfPrecision, KernelsRoundLikeTheReferenceOnEveryF16AndBf16) {
  std::vector<std::uint16_t> all(0x10000), ones(0x10000);
  for (int bits = 0; bits < 0x10000; ++bits) all[static_cast<std::size_t>(bits)] = static_cast<std::uint16_t>(bits);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const bool half = dtype == DType::f16;
    auto sums = all;
    ones.assign(ones.size(), half ? to_f16(1.1f).bits : to_bf16(1.1f).bits);
    combine_kernel(ReduceOp::sum, dtype)(reinterpret_cast<std::byte*>(sums.data()),
                                         reinterpret_cast<std::byte*>(ones.data()), sums.size() * 2);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float sum = half ? to_float(f16_t{all[i]}) + to_float(f16_t{ones[i]})
                             : to_float(bf16_t{all[i]}) + to_float(bf16_t{ones[i]});
      if (std::isnan(sum)) {
        ASSERT_TRUE(std::isnan(half ? to_float(f16_t{sums[i]}) : to_float(bf16_t{sums[i]})));
        continue;
      }
      ASSERT_EQ(sums[i], half ? to_f16(sum).bits : to_bf16(sum).bits) << name(dtype) << " " << i;
    }
  }
}

}  // namespace
}  // namespace paceline
