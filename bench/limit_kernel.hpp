// The memory traffic of an allreduce and nothing else: reads a range from every buffer, adds, writes the sums to every
// buffer. Built once per instruction set and chosen at run time, as the kernels it is the yardstick of.
#pragma once

#include <cstddef>
#include <span>

namespace paceline::bench {

enum class Stores {
  cached,     // through the caches: best while the buffers fit there
  streaming,  // past them: best once they do not
};

// Sums elements [begin, end) of all buffers in order and leaves the sums in each. The buffers are 64-byte aligned and
// `begin` is a multiple of 16 elements.
void sum_into_all(std::span<float* const> buffers, std::size_t begin, std::size_t end, Stores stores);

}  // namespace paceline::bench
