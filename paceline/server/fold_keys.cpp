#include "paceline/server/fold_keys.hpp"

#include <algorithm>
#include <bit>

#include "paceline/core/check.hpp"
#include "paceline/core/random.hpp"

namespace paceline {

void KeyFolder::find_firsts(std::span<const std::uint64_t> keys) {
  CHECK(keys.size() < (std::size_t{1} << 31), "a list has fewer than 2^31 keys");
  const std::size_t size = std::bit_ceil(keys.size() * 2 + 1);
  table_.assign(size, 0);
  first_.resize(keys.size());
  duplicates_ = false;
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    std::size_t at = mix(keys[i], 0) & (size - 1);
    while (table_[at] != 0 && keys[table_[at] - 1] != keys[i]) at = (at + 1) & (size - 1);
    if (table_[at] == 0) {
      table_[at] = i + 1;
    } else {
      duplicates_ = true;
    }
    first_[i] = table_[at] - 1;
  }
}

bool KeyFolder::has_duplicates(std::span<const std::uint64_t> keys) {
  find_firsts(keys);
  return duplicates_;
}

bool KeyFolder::fold(std::span<const std::uint64_t> keys, std::span<const float> gradients, std::size_t width) {
  if (!has_duplicates(keys)) return false;
  keys_.clear();
  gradients_.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::span<const float> row = gradients.subspan(i * width, width);
    if (first_[i] == i) {
      first_[i] = static_cast<std::uint32_t>(keys_.size());  // from here on: where in the folded list
      keys_.push_back(keys[i]);
      gradients_.insert(gradients_.end(), row.begin(), row.end());
      continue;
    }
    first_[i] = first_[first_[i]];
    float* sum = gradients_.data() + first_[i] * width;
    for (std::size_t j = 0; j < width; ++j) sum[j] += row[j];
  }
  return true;
}

}  // namespace paceline
