// Examples made from a seed: a random pattern for each class, under noise. For tests, and to measure speed without
// files; easy to learn. Integer arithmetic only, so that a seed gives the same bytes on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct SyntheticOptions {
  Shape shape = {.channels = 1, .height = 28, .width = 28};
  int classes = 10;
  std::size_t train = 60'000;
  std::size_t test = 10'000;
  std::uint64_t seed = 1;
};

// "1x28x28,classes=10,train=60000,test=10000,seed=1": each part optional, in any order. Error{invalid} otherwise.
SyntheticOptions parse_synthetic(std::string_view text);

DataSplit make_synthetic(const SyntheticOptions& options);

}  // namespace paceline
