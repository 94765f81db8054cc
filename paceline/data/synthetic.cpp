#include "paceline/data/synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 30;  // of all pixels together
constexpr int kCells = 7;                                // a pattern has 7x7 cells of one brightness each
constexpr int kPatternParts = 96;                        // of 256; the rest is noise

[[noreturn]] void refuse(std::string_view part, const std::string& sentence) {
  throw Error(Code::invalid, fmt::format("in synthetic, '{}' {}", part, sentence));
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t number_within(std::string_view part, std::string_view text, std::uint64_t least, std::uint64_t most) {
  const auto value = number(text);
  if (!value || *value < least || *value > most) refuse(part, fmt::format("needs a number from {} to {}", least, most));
  return *value;
}

// The text before the next `separator`, which is taken off `text` with it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view piece = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), piece.size() + 1));
  return piece;
}

Shape parse_shape(std::string_view part) {
  if (std::count(part.begin(), part.end(), 'x') != 2) {
    refuse(part, "is neither a shape such as 1x28x28 nor one of classes=, train=, test=, seed=");
  }
  std::string_view rest = part;
  Shape shape;
  shape.channels = static_cast<int>(number_within(part, take_until(rest, 'x'), 1, kMaxChannels));
  shape.height = static_cast<int>(number_within(part, take_until(rest, 'x'), 1, kMaxSide));
  shape.width = static_cast<int>(number_within(part, rest, 1, kMaxSide));
  return shape;
}

void parse_part(std::string_view part, SyntheticOptions& options, std::set<std::string_view>& seen) {
  const bool is_shape = part.find('=') == std::string_view::npos;
  std::string_view value = part;
  const std::string_view key = is_shape ? "shape" : take_until(value, '=');
  if (is_shape) {
    options.shape = parse_shape(part);
  } else if (key == "classes") {
    options.classes = static_cast<int>(number_within(part, value, 2, kMaxClasses));
  } else if (key == "train") {
    options.train = number_within(part, value, 1, kMaxExamples);
  } else if (key == "test") {
    options.test = number_within(part, value, 1, kMaxExamples);
  } else if (key == "seed") {
    options.seed = number_within(part, value, 0, std::numeric_limits<std::uint64_t>::max());
  } else {
    refuse(part, "is not known: there are a shape such as 1x28x28, classes=, train=, test= and seed=");
  }
  if (!seen.insert(key).second) refuse(part, fmt::format("gives the {} a second time", key));
}

// Per class the pixels of its pattern, one after the other.
std::vector<std::uint8_t> make_patterns(const Shape& shape, int classes, std::uint64_t seed) {
  Random random(seed, 0);
  std::vector<std::uint8_t> pixels;
  pixels.reserve(static_cast<std::size_t>(classes) * shape.pixels());
  for (int plane = 0; plane < classes * shape.channels; ++plane) {
    std::uint8_t cells[kCells][kCells];
    for (auto& row : cells) {
      for (std::uint8_t& cell : row) cell = static_cast<std::uint8_t>(random.below(256));
    }
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x)
        pixels.push_back(cells[y * kCells / shape.height][x * kCells / shape.width]);
    }
  }
  return pixels;
}

// One draw is the noise of eight pixels.
void add_example(std::span<const std::uint8_t> pattern, Random& random, std::vector<std::uint8_t>& pixels) {
  std::uint64_t noise = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    noise = i % 8 == 0 ? random() : noise >> 8;
    const auto mixed = pattern[i] * kPatternParts + static_cast<int>(noise & 255) * (256 - kPatternParts);
    pixels.push_back(static_cast<std::uint8_t>(mixed / 256));
  }
}

Dataset make_part(const SyntheticOptions& options, std::span<const std::uint8_t> patterns, std::size_t size,
                  Random random, const char* name) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  pixels.reserve(size * options.shape.pixels());
  labels.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t label = random.below(static_cast<std::uint64_t>(options.classes));
    add_example(patterns.subspan(label * options.shape.pixels(), options.shape.pixels()), random, pixels);
    labels.push_back(static_cast<std::uint8_t>(label));
  }
  return Dataset(options.shape, options.classes, std::move(pixels), std::move(labels), name);
}

}  // namespace

SyntheticOptions parse_synthetic(std::string_view text) {
  SyntheticOptions options;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const bool more = text.find(',') != std::string_view::npos;
    const std::string_view part = take_until(text, ',');
    parse_part(part, options, seen);
    if (more && text.empty()) refuse(",", "is followed by nothing");
  }
  const std::size_t bytes = (options.train + options.test) * options.shape.pixels();
  if (bytes <= kMaxBytes) return options;
  throw Error(Code::invalid, fmt::format("synthetic data of {} examples of {} take {} bytes, more than {}",
                                         options.train + options.test, to_string(options.shape), bytes, kMaxBytes));
}

DataSplit make_synthetic(const SyntheticOptions& options) {
  const std::vector<std::uint8_t> patterns = make_patterns(options.shape, options.classes, options.seed);
  return make_split(make_part(options, patterns, options.train, Random(options.seed, 1), "synthetic train"),
                    make_part(options, patterns, options.test, Random(options.seed, 2), "synthetic test"));
}

}  // namespace paceline
