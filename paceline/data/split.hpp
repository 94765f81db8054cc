// What is made of whole data sets: the split that a run trains and tests on, parts of a set, the part held out for
// validation. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/data/dataset.hpp"

namespace paceline {

// Error{invalid} if the two do not have the same shape and classes.
DataSplit make_split(Dataset train, Dataset test);

// Brings the set's pixels to mean 0 and standard deviation 1, each channel by itself; pixels that are all the same only
// to mean 0.
Normalisation normalisation_of(const Dataset& data);

// Depends on the examples and their order only, not on names or on where they came from.
std::uint64_t fingerprint_of(const Dataset& train, const Dataset& test);

// Copies these examples, in this order. Error{invalid} for text, which is one piece.
Dataset subset(const Dataset& data, std::span<const std::uint32_t> examples);

// A random `share` of the numbers 0 … size-1 and the rest, both in ascending order. The same seed draws the same
// numbers. Error{invalid}, which speaks of `name`, if one of the two would be empty.
struct Division {
  std::vector<std::uint32_t> rest;
  std::vector<std::uint32_t> drawn;
};
Division divide(std::size_t size, double share, std::uint64_t seed, const std::string& name);

// {the rest, a random `share` of the examples}, each in the order of `data`. The same seed holds out the same examples.
// Of text it is the last `share`, whatever the seed. Error{invalid} if one of the two would be empty.
std::pair<Dataset, Dataset> hold_out(const Dataset& data, double share, std::uint64_t seed);

}  // namespace paceline
