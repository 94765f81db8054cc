#include "bench/limit_kernel.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/limit_kernel.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which includes this file once more for each instruction set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace paceline::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kStreaming, class D, class V>
void store(V value, D d, float* to) {
  if constexpr (kStreaming) {
    hn::Stream(value, d, to);
  } else {
    hn::Store(value, d, to);
  }
}

// One cache line of every buffer at a time: a line streamed in one piece leaves the core as one write.
template <bool kStreaming>
std::size_t sum_lines(std::span<float* const> buffers, std::size_t begin, std::size_t end) {
  const hn::CappedTag<float, 16> d;
  constexpr std::size_t kLine = 16;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = begin;
  for (; i + kLine <= end; i += kLine) {
    for (std::size_t j = i; j < i + kLine; j += lanes) {
      auto sum = hn::Load(d, buffers[0] + j);
      for (std::size_t b = 1; b < buffers.size(); ++b) sum = hn::Add(sum, hn::Load(d, buffers[b] + j));
      for (float* buffer : buffers) store<kStreaming>(sum, d, buffer + j);
    }
  }
  return i;
}

// Two buffers are the case that bars are set for: with pointers in registers the loop is half as long.
template <bool kStreaming>
std::size_t sum_lines(float* HWY_RESTRICT a, float* HWY_RESTRICT b, std::size_t begin, std::size_t end) {
  const hn::CappedTag<float, 16> d;
  constexpr std::size_t kLine = 16;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = begin;
  for (; i + kLine <= end; i += kLine) {
    for (std::size_t j = i; j < i + kLine; j += lanes) {
      const auto sum = hn::Add(hn::Load(d, a + j), hn::Load(d, b + j));
      store<kStreaming>(sum, d, a + j);
      store<kStreaming>(sum, d, b + j);
    }
  }
  return i;
}

template <bool kStreaming>
std::size_t sum_whole_lines(std::span<float* const> buffers, std::size_t begin, std::size_t end) {
  if (buffers.size() == 2) return sum_lines<kStreaming>(buffers[0], buffers[1], begin, end);
  return sum_lines<kStreaming>(buffers, begin, end);
}

void sum(std::span<float* const> buffers, std::size_t begin, std::size_t end, Stores stores) {
  const bool streaming = stores == Stores::streaming;
  std::size_t i = streaming ? sum_whole_lines<true>(buffers, begin, end) : sum_whole_lines<false>(buffers, begin, end);
  for (; i < end; ++i) {
    float total = 0;
    for (float* buffer : buffers) total += buffer[i];
    for (float* buffer : buffers) buffer[i] = total;
  }
  if (streaming) hwy::FlushStream();
}

}  // namespace paceline::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::bench {

HWY_EXPORT(sum);

void sum_into_all(std::span<float* const> buffers, std::size_t begin, std::size_t end, Stores stores) {
  HWY_DYNAMIC_DISPATCH(sum)(buffers, begin, end, stores);
}

}  // namespace paceline::bench
#endif
