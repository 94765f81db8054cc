#include "paceline/data/text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "paceline/core/error.hpp"
#include "paceline/data/byte_reader.hpp"
#include "paceline/data/file_spec.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

int parse_length(const std::string& text) {
  int length = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (problem == std::errc() && end == text.data() + text.size() && length >= 1 && length <= kMaxColumns) return length;
  throw Error(Code::invalid, fmt::format("in text, 'length={}' needs a number from 1 to {}", text, kMaxColumns));
}

double parse_test(const std::string& text) {
  if (const auto share = parse_share(text)) return *share;
  throw Error(Code::invalid, fmt::format("in text, 'test={}' needs a share above 0% and below 100%", text));
}

std::string vocabulary_of(std::span<const std::uint8_t> bytes) {
  std::array<bool, 256> occurs = {};
  for (const std::uint8_t byte : bytes) occurs[byte] = true;
  std::string vocabulary;
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (occurs[byte]) vocabulary.push_back(static_cast<char>(byte));
  }
  return vocabulary;
}

// Each character by its number in the vocabulary.
void number_characters(std::span<std::uint8_t> bytes, const std::string& vocabulary) {
  std::array<std::uint8_t, 256> numbers = {};
  for (std::size_t i = 0; i < vocabulary.size(); ++i)
    numbers[static_cast<std::uint8_t>(vocabulary[i])] = static_cast<std::uint8_t>(i);
  for (std::uint8_t& byte : bytes) byte = numbers[byte];
}

}  // namespace

TextOptions parse_text_options(std::string_view text) {
  const FileSpec spec = parse_file_spec(text, "text", {"length", "test"});
  TextOptions options{.file = spec.file};
  if (const auto length = spec.option("length")) options.length = parse_length(*length);
  if (const auto test = spec.option("test")) options.test = parse_test(*test);
  return options;
}

DataSplit parse_text(std::span<const std::uint8_t> file, const TextOptions& options) {
  std::vector<std::uint8_t> characters = ByteReader(file, options.file).read_rest();
  if (characters.empty()) throw Error(Code::invalid, fmt::format("{} is empty", options.file));
  const std::string vocabulary = vocabulary_of(characters);
  number_characters(characters, vocabulary);
  const auto size = static_cast<double>(characters.size());
  const auto tested = std::llround(options.test * size);
  const auto part = [&](auto first, auto last, const char* name) {
    return Dataset::of_text(options.length, static_cast<int>(vocabulary.size()), {first, last},
                            fmt::format("the {} part of {}", name, options.file));
  };
  const auto border = characters.end() - tested;
  Dataset train = part(characters.begin(), border, "training");
  DataSplit split = make_split(std::move(train), part(border, characters.end(), "test"));
  split.vocabulary = vocabulary;
  return split;
}

DataSplit read_text(const TextOptions& options) { return parse_text(load_file(options.file), options); }

}  // namespace paceline
