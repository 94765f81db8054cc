// Batch: examples as a model takes them. Its buffers are kept from one use to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct Batch {
  std::vector<float> pixels;  // example by example, normalised
  std::vector<std::int64_t> labels;
  std::size_t global_size = 0;  // examples of all workers together in this step
  std::size_t consumed = 0;     // of the epoch, after this step

  std::size_t size() const { return labels.size(); }
};

// Makes pixels and labels those of the examples `indices`; leaves the rest alone. Takes memory only if the batch has
// never been that large.
void fill(Batch& batch, const Dataset& data, const Normalisation& normalisation,
          std::span<const std::uint32_t> indices);

}  // namespace paceline
