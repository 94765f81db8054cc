// IDX, the format of MNIST and its relatives (https://yann.lecun.com/exdb/mnist): a magic number, the sizes, the bytes;
// numbers are 32 bits, big endian. See README.md for the table. Files may be compressed with gzip.
// Every failure is an Error{invalid} that names the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct IdxImages {
  Shape shape;
  std::size_t count = 0;
  std::vector<std::uint8_t> pixels;
};

// `file` is the content of the file called `name`, as it is on disk.
IdxImages parse_idx_images(std::span<const std::uint8_t> file, const std::string& name);
std::vector<std::uint8_t> parse_idx_labels(std::span<const std::uint8_t> file, const std::string& name, int classes);

// The four files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte
// in `folder`, each as it is or with .gz. `name` becomes that of the data sets.
DataSplit read_idx_folder(const std::string& folder, const std::string& name, int classes);

}  // namespace paceline
