// What is made of whole data sets: the split that a run trains and tests on, parts of a set, the part held out for
// validation. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "paceline/data/dataset.hpp"

namespace paceline {

// Error{invalid} if the two do not have the same shape and classes.
DataSplit make_split(Dataset train, Dataset test);

// Brings the set's pixels to mean 0 and standard deviation 1; pixels that are all the same only to mean 0.
Normalisation normalisation_of(const Dataset& data);

// Depends on the examples and their order only, not on names or on where they came from.
std::uint64_t fingerprint_of(const Dataset& train, const Dataset& test);

// Copies these examples, in this order.
Dataset subset(const Dataset& data, std::span<const std::uint32_t> examples);

// {the rest, a random `share` of the examples}, each in the order of `data`. The same seed holds out the same examples.
// Error{invalid} if one of the two would be empty.
std::pair<Dataset, Dataset> hold_out(const Dataset& data, double share, std::uint64_t seed);

}  // namespace paceline
