// CIFAR-10 in its binary version (https://www.cs.toronto.edu/~kriz/cifar.html): records of a label and 32x32 pixels,
// the red ones first, then green and blue. Files may be compressed with gzip. Every failure is an Error{invalid} that
// names the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/data/dataset.hpp"

namespace paceline {

inline constexpr Shape kCifarShape = {.channels = 3, .height = 32, .width = 32};
inline constexpr int kCifarClasses = 10;

struct CifarRecords {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

// Adds what `file`, the content of the file called `name` as it is on disk, holds.
void parse_cifar10(std::span<const std::uint8_t> file, const std::string& name, CifarRecords& records);

// data_batch_1.bin to data_batch_5.bin in `folder`, those that are there but at least one, and test_batch.bin, each as
// it is or with .gz.
DataSplit read_cifar10_folder(const std::string& folder);

}  // namespace paceline
