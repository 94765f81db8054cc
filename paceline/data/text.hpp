// A text as data: its bytes are the characters, and each is to be predicted from those before it. The vocabulary is the
// bytes that occur, in ascending order. Files may be compressed with gzip. Every failure is an Error{invalid}.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct TextOptions {
  std::string file;
  int length = 64;    // of a window
  double test = 0.1;  // the last part is the test set
};

// "input.txt,length=64,test=10%"
TextOptions parse_text_options(std::string_view text);

// `file` is the content of `options.file`, as it is on disk.
DataSplit parse_text(std::span<const std::uint8_t> file, const TextOptions& options);
DataSplit read_text(const TextOptions& options);

}  // namespace paceline
