#include "paceline/fabric/cores.hpp"

#include <sched.h>

#include <bit>

namespace paceline {

int CoreSet::count() const {
  int total = 0;
  for (const std::uint64_t word : words) total += std::popcount(word);
  return total;
}

CoreSet& CoreSet::operator|=(const CoreSet& other) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] |= other.words[i];
  return *this;
}

CoreSet available_cores() {
  CoreSet cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::size_t core = 0; core < 64 * cores.words.size() && core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.words[core / 64] |= std::uint64_t{1} << (core % 64);
    }
  }
  if (cores.count() == 0) cores.words[0] = 1;
  return cores;
}

}  // namespace paceline
