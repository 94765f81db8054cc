#include "paceline/fabric/cores.hpp"

#include <sched.h>

#include <algorithm>
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

CoreSet CoreSet::without(const CoreSet& other) const {
  CoreSet rest;
  for (std::size_t i = 0; i < words.size(); ++i) rest.words[i] = words[i] & ~other.words[i];
  return rest;
}

CoreSet available_cores() {
  static_assert(sizeof(CoreSet) == sizeof(cpu_set_t) && CPU_SETSIZE == 1024);
  CoreSet cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.add(core);
    }
  }
  if (cores.count() == 0) cores.add(0);
  return cores;
}

void run_on(const CoreSet& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (cores.has(core)) CPU_SET(core, &set);
  }
  sched_setaffinity(0, sizeof set, &set);
}

std::uint32_t current_core() { return static_cast<std::uint32_t>(std::max(0, sched_getcpu())); }

}  // namespace paceline
