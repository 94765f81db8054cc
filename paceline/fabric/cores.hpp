// The cores of a host, and on which of them a process may run.
#pragma once

#include <array>
#include <cstdint>

namespace paceline {

// One bit per core. Plain words, because it travels between processes.
struct CoreSet {
  std::array<std::uint64_t, 16> words{};

  int count() const;
  void add(std::uint32_t core) { words[core / 64 % words.size()] |= std::uint64_t{1} << (core % 64); }
  bool has(std::uint32_t core) const { return (words[core / 64 % words.size()] >> (core % 64) & 1) != 0; }
  CoreSet& operator|=(const CoreSet& other);
  CoreSet without(const CoreSet& other) const;
};

// Those this thread may run on; at least one.
CoreSet available_cores();
// Confines this thread to these; does nothing if the system does not want it.
void run_on(const CoreSet& cores);
std::uint32_t current_core();

}  // namespace paceline
