// Optical Recognition of Handwritten Digits (Alpaydin & Kaynak 1998, UCI Machine Learning Repository, CC BY 4.0): 1,797
// images of 8x8, part of the library. README.md says how the file was made.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/data/dataset.hpp"

namespace paceline {

// gzip; per example 64 pixels of 0 to 16, then the label.
std::span<const std::uint8_t> digits_file();

// Every sixth example, from the first, is for the test: writers come in blocks, so that a split in the middle would
// test on writers that were never seen. 1,497 and 300 examples.
DataSplit read_digits();

}  // namespace paceline
