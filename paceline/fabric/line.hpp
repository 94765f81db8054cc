#pragma once

#include <atomic>
#include <cstdint>

namespace paceline {

// A host's link to the others, if it is imitated: when it has carried what was given to it, each way, in nanoseconds of
// the steady clock. In memory that all ranks of the host share; zero is a link that was never used.
struct Line {
  std::atomic<std::int64_t> out_free_at;
  std::atomic<std::int64_t> in_free_at;
};

}  // namespace paceline
