// For the tests of the promise that `ordered` and `shm` give the bits of a sum in rank order, whatever carries it.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "paceline/collective/collective_test_support.hpp"

namespace paceline::collective_test {

// Numbers of very different sizes, so that every other order of additions shows in the last bits.
inline float uneven(int rank, std::size_t i) {
  Random random(static_cast<std::uint64_t>(rank), i);
  return static_cast<float>(random.uniform() - 0.5) * std::exp2(static_cast<float>(random.below(12)));
}

inline std::uint64_t bits_of(const TensorView& view, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, view.begin() + i * size_of(view.dtype), size_of(view.dtype));
  return bits;
}

// The sum in rank order: in f32, rounded once at the end.
inline std::uint64_t rank_order_bits(DType dtype, ReduceOp op, int n, std::size_t i) {
  const auto rounded = [&](int rank) {
    const float value = uneven(rank, i);
    if (dtype == DType::f16) return to_float(to_f16(value));
    return dtype == DType::bf16 ? to_float(to_bf16(value)) : value;
  };
  float sum = rounded(0);
  for (int rank = 1; rank < n; ++rank) sum += rounded(rank);
  if (op == ReduceOp::average) sum /= static_cast<float>(n);
  if (dtype == DType::f16) return to_f16(sum).bits;
  return dtype == DType::bf16 ? to_bf16(sum).bits : std::bit_cast<std::uint32_t>(sum);
}

// One vector, reduced in buckets of every size by both algorithms.
inline void expect_rank_order_bits(Endpoint& endpoint, std::size_t segment_bytes) {
  constexpr std::int64_t kCount = 1500;
  Communicator world(endpoint, Group::world(endpoint.size()), {.segment_bytes = segment_bytes});
  Memory memory(endpoint, 1 << 20);
  const auto reduce_in_buckets = [&](const TensorView& all, std::int64_t bucket, ReduceOp op, Algorithm algorithm) {
    for (std::int64_t begin = 0; begin < all.count; begin += bucket) {
      std::byte* const data = all.begin() + static_cast<std::size_t>(begin) * size_of(all.dtype);
      world.allreduce({data, std::min(bucket, all.count - begin), all.dtype, Device::host}, op,
                      {.algorithm = algorithm});
    }
  };
  const auto compare = [&](DType dtype, ReduceOp op, std::int64_t bucket, Algorithm algorithm) {
    const TensorView all = memory.take(algorithm == Algorithm::shm ? Where::arena : Where::heap, dtype, kCount, 0);
    for (std::int64_t i = 0; i < kCount; ++i)
      store(all, i, static_cast<double>(uneven(endpoint.rank(), static_cast<std::size_t>(i))));
    reduce_in_buckets(all, bucket, op, algorithm);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(bits_of(all, i), rank_order_bits(dtype, op, endpoint.size(), i))
          << name(algorithm) << ' ' << name(op) << ' ' << name(dtype) << ", segments of " << segment_bytes
          << ", buckets of " << bucket;
    }
    EXPECT_TRUE(memory.reset());
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      for (const std::int64_t bucket : {1500, 333, 64}) {
        compare(dtype, op, bucket, Algorithm::ordered);
        if (endpoint.facts().mapped_memory) compare(dtype, op, bucket, Algorithm::shm);
      }
    }
  }
}

// Also with infinities, signed zeros and numbers that are none.
inline void expect_same_bits_on_all_ranks(Endpoint& endpoint) {
  constexpr std::int64_t kCount = 600;
  constexpr float kOdd[] = {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  Communicator world(endpoint, Group::world(endpoint.size()), {.segment_bytes = 1024});
  Memory memory(endpoint);
  for (const Algorithm algorithm : algorithms_to_try(Collective::allreduce, endpoint.facts().mapped_memory)) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const ReduceOp op : kAllReduceOps) {
        const TensorView data = memory.take(Where::arena, dtype, kCount, 0);
        for (std::int64_t i = 0; i < kCount; ++i) {
          Random random(static_cast<std::uint64_t>(endpoint.rank()) + 50, static_cast<std::uint64_t>(i));
          store(data, i,
                static_cast<double>(random.below(10) == 0 ? kOdd[random.below(5)]
                                                          : uneven(endpoint.rank(), static_cast<std::size_t>(i))));
        }
        world.allreduce(data, op, {.algorithm = algorithm});
        const TensorView of_rank_0 = memory.take(Where::heap, dtype, kCount, 0);
        std::memcpy(of_rank_0.data, data.data, data.bytes());
        world.broadcast(of_rank_0, 0);
        EXPECT_EQ(std::memcmp(of_rank_0.data, data.data, data.bytes()), 0)
            << name(algorithm) << ' ' << name(op) << ' ' << name(dtype);
        memory.reset();
      }
    }
  }
}

}  // namespace paceline::collective_test
