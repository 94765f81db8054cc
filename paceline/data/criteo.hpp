// Click logs as Criteo publishes them: a row is a label (1: clicked), 13 integers and 26 categories, which are hashes
// of up to 8 hexadecimal digits. Cells are separated by tabs, or by commas; where the first line names the columns
// (Label, I1 to I13, C1 to C26, in any order, others are passed over) it is a header, otherwise they come in this
// order. Any integer and category may be missing. Files may be compressed with gzip.
//
//   integer x    becomes log(1 + x), of a negative one -log(1 - x); a missing one becomes 0
//   category     becomes a key of its column and hash; a missing one has a key too, one for each column
//
// Keys have 64 bits, so that no two categories share one, or with hash-bits=N they are hashed into N bits. Every
// failure is an Error{invalid} with file, line and column.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "paceline/data/dataset.hpp"

namespace paceline {

inline constexpr int kCriteoIntegers = 13;
inline constexpr int kCriteoCategories = 26;

struct CriteoOptions {
  std::string file = {};
  int hash_bits = 0;           // 0: keys as they are
  double test = 0.2;           // a random share of the rows, always the same
  std::string test_file = {};  // instead of the share, if given
};

// "train.txt,hash-bits=20,test=10%"; after test= a share or a file.
CriteoOptions parse_criteo_options(std::string_view text);

// The key of a category in column 1 to 26; without a hash: of a missing one.
std::uint64_t criteo_key(int column, std::optional<std::uint32_t> hash, int hash_bits = 0);

// All rows of a file; `file` is the content of the one called `name`, as it is on disk.
Dataset parse_criteo(std::span<const std::uint8_t> file, const std::string& name, int hash_bits = 0);
DataSplit read_criteo(const CriteoOptions& options);

}  // namespace paceline
