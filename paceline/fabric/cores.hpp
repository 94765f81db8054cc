// The cores of a host, and on which of them a process may run.
#pragma once

#include <array>
#include <cstdint>

namespace paceline {

// One bit per core. Plain words, because it travels between processes.
struct CoreSet {
  std::array<std::uint64_t, 16> words{};

  int count() const;
  CoreSet& operator|=(const CoreSet& other);
};

// Those this thread may run on; at least one.
CoreSet available_cores();

}  // namespace paceline
