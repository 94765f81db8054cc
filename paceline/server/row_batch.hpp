// RowBatch: rows of a table with the state of its rule, as they travel and as they are stored. A value.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline {

// Values keys x width; state keys x width x state_floats, a row's arrays one after the other; steps one per key if the
// rule counts them.
struct RowBatch {
  std::vector<std::uint64_t> keys = {};
  std::vector<float> values = {};
  std::vector<float> state = {};
  std::vector<std::uint32_t> steps = {};
};

}  // namespace paceline
