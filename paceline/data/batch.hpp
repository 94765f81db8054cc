// Batch: examples as a model takes them. Its buffers are kept from one use to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/data/augment.hpp"
#include "paceline/data/dataset.hpp"

namespace paceline {

struct Batch {
  std::size_t examples = 0;
  // Example by example; which of them are filled depends on the kind of data.
  std::vector<float> values;         // images, normalised, and rows
  std::vector<std::int64_t> tokens;  // text; of keyed rows the keys, then each number as the bits of a double
  std::vector<std::int64_t> labels;  // classes: one of each example, or of each of its characters
  std::vector<float> targets;        // where a number is to be predicted
  std::size_t global_size = 0;       // examples of all workers together in this step
  std::size_t consumed = 0;          // of the epoch, after this step

  std::size_t size() const { return examples; }
};

// Makes the batch consist of the examples `indices`; leaves the rest alone. Takes memory only if the batch has
// never been that large.
void fill(Batch& batch, const Dataset& data, const Normalisation& normalisation,
          std::span<const std::uint32_t> indices);
// The same with images changed as the augmenter draws it.
void fill(Batch& batch, const Dataset& data, const Normalisation& normalisation, std::span<const std::uint32_t> indices,
          const Augmenter& augmenter);

}  // namespace paceline
