// Random numbers from a seed, so that a run can be replayed. Never for secrets.
#pragma once

#include <cstdint>

namespace paceline {

// SplitMix64's finaliser (Steele, Lea & Flood 2014): every bit of the result depends on every bit of the arguments.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + 0x9e3779b97f4a7c15ULL * (b + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// A stream of independent draws; two streams of one seed with different numbers have nothing in common. Satisfies
// std::uniform_random_bit_generator. Not thread-safe.
class Random {
 public:
  using result_type = std::uint64_t;
  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0) : state_(mix(seed, stream)) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  constexpr result_type operator()() { return mix(state_, counter_++); }

  // Uniform in [0, bound); the bias of the reduction is below bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
  }
  // Uniform in [0, 1).
  constexpr double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
  std::uint64_t counter_ = 0;
};

}  // namespace paceline
