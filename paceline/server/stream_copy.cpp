#include "paceline/server/stream_copy.hpp"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace paceline {
namespace {

constexpr std::size_t kLineFloats = 16;

}  // namespace

// Vectors of the least common machine: what counts is that whole lines are written.
void stream_copy(float* into, const float* from, std::size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> tag;
  const std::size_t lanes = hn::Lanes(tag);
  const std::size_t off = reinterpret_cast<std::uintptr_t>(into) / sizeof(float) % kLineFloats;
  const std::size_t head = std::min(count, off == 0 ? 0 : kLineFloats - off);
  std::memcpy(into, from, head * sizeof(float));
  std::size_t at = head;
  for (; at + kLineFloats <= count; at += kLineFloats) {
    for (std::size_t i = 0; i < kLineFloats; i += lanes) hn::Stream(hn::LoadU(tag, from + at + i), tag, into + at + i);
  }
  std::memcpy(into + at, from + at, (count - at) * sizeof(float));
}

void finish_streams() { hwy::FlushStream(); }

}  // namespace paceline
