// libFuzzer target: the readers of text, CSV and CIFAR-10. An input is a mode, then a file.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/data/cifar10.hpp"
#include "paceline/data/csv.hpp"
#include "paceline/data/table.hpp"
#include "paceline/data/text.hpp"
#include "tests/fuzz/gzip.hpp"

namespace paceline {
namespace {

enum class FuzzMode : std::uint8_t { text, table, cifar10, packed_text, packed_table, packed_cifar10, kCount };

// The first byte is the length of a window.
void fuzz_text(const Bytes& input, bool packed) {
  if (input.empty()) return;
  const Bytes file(input.begin() + 1, input.end());
  const DataSplit split = parse_text(packed ? gzip(file) : file, {.file = "fuzzed", .length = input[0]});
  CHECK(split.vocabulary.size() == static_cast<std::size_t>(split.train.classes()), "each character has a number");
  CHECK(split.train.size() > 0 && split.test.size() > 0, "both parts have windows");
  CHECK(packed || split.train.all_pixels().size() + split.test.all_pixels().size() <= file.size() * kMostPerByte,
        "characters come from the file");
}

void fuzz_table(const Bytes& file) {
  const CsvTable table = parse_csv(file, "fuzzed");
  CHECK(table.rows() > 0 && table.columns() > 0, "a table that is read is not empty");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    CHECK(row == 0 || table.line(row) > table.line(row - 1), "rows are in the order of their lines");
    for (std::size_t column = 0; column < table.columns(); ++column)
      CHECK(table.cell(row, column).find('\0') == std::string_view::npos, "cells are text");
  }
  const DataSplit split = make_table_split(table, {.file = "fuzzed"});
  CHECK(split.train.size() + split.test.size() == table.rows(), "every row is in one part");
  const auto values = split.train.all_values();
  CHECK(std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }), "all is finite");
  CHECK(split.class_names.size() == static_cast<std::size_t>(split.train.classes()), "each class has a name");
}

void fuzz_cifar10(const Bytes& file) {
  CifarRecords records;
  parse_cifar10(file, "fuzzed", records);
  CHECK(!records.labels.empty(), "a file that is read is not empty");
  CHECK(records.pixels.size() == records.labels.size() * kCifarShape.pixels(), "all pixels are there");
  CHECK(std::all_of(records.labels.begin(), records.labels.end(), [](int label) { return label < kCifarClasses; }),
        "labels are classes");
}

void fuzz(FuzzMode mode, Bytes file) {
  try {
    switch (mode) {
      case FuzzMode::text: return fuzz_text(file, false);
      case FuzzMode::table: return fuzz_table(file);
      case FuzzMode::cifar10: return fuzz_cifar10(file);
      case FuzzMode::packed_text: return fuzz_text(file, true);
      case FuzzMode::packed_table: return fuzz_table(gzip(std::move(file)));
      case FuzzMode::packed_cifar10: return fuzz_cifar10(gzip(std::move(file)));
      case FuzzMode::kCount: return;
    }
  } catch (const Error& error) {
    CHECK(error.code() == Code::invalid, "a bad file is invalid, nothing else");
  }
}

}  // namespace
}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto mode = static_cast<paceline::FuzzMode>(data[0] % static_cast<int>(paceline::FuzzMode::kCount));
  paceline::fuzz(mode, paceline::Bytes(data + 1, data + size));
  return 0;
}
