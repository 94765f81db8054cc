// KeyFolder: makes a list's keys distinct by summing the gradients of those that occur more than once, in the list's
// order. Keeps its memory from list to list. Owned by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

class KeyFolder {
 public:
  // False: all keys were distinct, and nothing is kept. Else `keys` and `gradients` below are the list's.
  bool fold(std::span<const std::uint64_t> keys, std::span<const float> gradients, std::size_t width);

  std::span<const std::uint64_t> keys() const { return keys_; }
  std::span<const float> gradients() const { return gradients_; }

  bool has_duplicates(std::span<const std::uint64_t> keys);

 private:
  // Where in the list each key occurs first.
  void find_firsts(std::span<const std::uint64_t> keys);

  std::vector<std::uint32_t> table_;  // open addressing; an index in the list plus 1
  std::vector<std::uint32_t> first_;
  bool duplicates_ = false;
  std::vector<std::uint64_t> keys_;
  std::vector<float> gradients_;
};

}  // namespace paceline
