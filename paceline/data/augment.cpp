#include "paceline/data/augment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

// Apart from the streams of the Sampler (its epochs) and of hold_out, which have the same seed.
constexpr std::uint64_t kAugmentStream = 0xa06'0000'0000'0000ULL;

[[noreturn]] void refuse(std::string_view word) {
  throw Error(Code::invalid, fmt::format("'{}' is no augmentation: there are flip and crop:N (such as flip,crop:4), or "
                                         "none",
                                         word));
}

int parse_crop(std::string_view word) {
  const std::string_view number = word.substr(word.find(':') + 1);
  int pixels = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), pixels);
  if (problem != std::errc() || end != number.data() + number.size() || pixels < 1 || pixels >= kMaxSide) {
    throw Error(Code::invalid, fmt::format("'{}' needs a number of pixels from 1 to {}: crop:4", word, kMaxSide - 1));
  }
  return pixels;
}

void parse_word(std::string_view word, Augmentation& result) {
  const bool twice = word == "flip" ? result.flip : result.crop > 0;
  if (word == "flip") {
    result.flip = true;
  } else if (word == "crop" || word.starts_with("crop:")) {
    result.crop = parse_crop(word);
  } else {
    refuse(word);
  }
  if (twice) throw Error(Code::invalid, fmt::format("the augmentation names {} twice", word.substr(0, 4)));
}

// One row whose first pixel is that of column `right`, black beyond both ends.
template <class In>
float* place_row(In row, int width, int right, const PixelTable& table, float* out) {
  const int before = std::clamp(-right, 0, width);
  const int first = std::clamp(right, 0, width);
  const int count = std::max(0, width - std::max(before, first));
  out = std::fill_n(out, before, table[0]);
  out = std::transform(row + first, row + first + count, out, [&](std::uint8_t value) { return table[value]; });
  return std::fill_n(out, width - before - count, table[0]);
}

}  // namespace

Augmentation parse_augmentation(std::string_view text) {
  Augmentation result;
  if (text == "none") return result;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    parse_word(text.substr(0, comma), result);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return result;
}

std::string to_string(const Augmentation& augmentation) {
  if (!augmentation.any()) return "none";
  const std::string crop = augmentation.crop > 0 ? fmt::format("crop:{}", augmentation.crop) : "";
  if (!augmentation.flip) return crop;
  return crop.empty() ? "flip" : "flip," + crop;
}

void check_augmentation(const Augmentation& augmentation, const Form& form) {
  if (!augmentation.any()) return;
  if (form.kind != Kind::images) {
    throw Error(Code::invalid,
                fmt::format("augmentation ({}) is for images, not for {}", to_string(augmentation), to_string(form)));
  }
  if (augmentation.crop < std::min(form.shape.height, form.shape.width)) return;
  throw Error(Code::invalid, fmt::format("crop:{} would move {} out of sight: it must be less than their sides",
                                         augmentation.crop, to_string(form)));
}

Placement Augmenter::place(std::uint32_t example) const {
  if (!augmentation.any()) return {};
  Random random(mix(mix(seed, kAugmentStream), static_cast<std::uint64_t>(epoch)), example);
  const std::uint64_t positions = 2 * static_cast<std::uint64_t>(augmentation.crop) + 1;
  Placement placement;
  placement.mirrored = augmentation.flip && random.below(2) == 1;
  placement.down = static_cast<int>(random.below(positions)) - augmentation.crop;
  placement.right = static_cast<int>(random.below(positions)) - augmentation.crop;
  return placement;
}

// A mirrored row is read from its end, and so moves the other way.
void place_plane(std::span<const std::uint8_t> plane, const Shape& shape, const Placement& placement,
                 const PixelTable& table, float* out) {
  for (int y = 0; y < shape.height; ++y) {
    const int from = y + placement.down;
    if (from < 0 || from >= shape.height) {
      out = std::fill_n(out, shape.width, table[0]);
      continue;
    }
    const std::uint8_t* row = plane.data() + static_cast<std::ptrdiff_t>(from) * shape.width;
    out = placement.mirrored
              ? place_row(std::reverse_iterator(row + shape.width), shape.width, -placement.right, table, out)
              : place_row(row, shape.width, placement.right, table, out);
  }
}

}  // namespace paceline
