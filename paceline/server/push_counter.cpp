#include "paceline/server/push_counter.hpp"

#include <algorithm>
#include <bit>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kRows = 4;  // of 16 counters in a line
constexpr std::uint64_t kStream = 0x70757368;

}  // namespace

PushCounter::PushCounter(std::size_t counters) : now_(std::bit_ceil(std::max(counters, kLine))), before_(now_.size()) {}

unsigned PushCounter::count(std::uint64_t key) {
  const std::uint64_t hash = mix(key, kStream);
  const std::size_t line = (hash >> 16) % (now_.size() / kLine) * kLine;
  std::size_t places[kRows];
  unsigned fresh = 255;
  unsigned old = 255;
  for (std::size_t r = 0; r < kRows; ++r) {
    places[r] = line + r * (kLine / kRows) + ((hash >> (4 * r)) & 15);
    fresh = std::min<unsigned>(fresh, now_[places[r]]);
    old = std::min<unsigned>(old, before_[places[r]]);
  }
  fresh = std::min(fresh + 1, 255u);
  for (const std::size_t place : places)
    now_[place] = static_cast<std::uint8_t>(std::max<unsigned>(now_[place], fresh));
  return fresh + old;
}

void PushCounter::turn() {
  std::swap(now_, before_);
  std::fill(now_.begin(), now_.end(), std::uint8_t{0});
}

}  // namespace paceline
