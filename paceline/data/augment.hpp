// Augmentation: small random changes to the pictures that a model is trained on, so that it never sees the same one
// twice. What happens to a picture depends on seed, epoch and the example's number only, not on who loads it or with
// which others: a resumed run and another number of workers see the same pictures. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct Augmentation {
  bool flip = false;  // left and right change places, every second time
  int crop = 0;       // moved by up to so many pixels each way; what comes in is black

  bool any() const { return flip || crop > 0; }
  bool operator==(const Augmentation&) const = default;
};

// "flip,crop:4", either alone, or "none". Error{invalid} otherwise.
Augmentation parse_augmentation(std::string_view text);
std::string to_string(const Augmentation& augmentation);  // what parse_augmentation takes

// Error{invalid} if that cannot be done to such data: they are no images, or too small to be moved so far.
void check_augmentation(const Augmentation& augmentation, const Form& form);

// What happens to one picture: its pixel (y + down, x + right) goes to (y, x), or to (y, width - 1 - x) if mirrored.
struct Placement {
  int down = 0;
  int right = 0;
  bool mirrored = false;
};

// The draws of one epoch. A value; thread-safe.
struct Augmenter {
  Augmentation augmentation;
  std::uint64_t seed = 0;
  int epoch = 0;

  Placement place(std::uint32_t example) const;
};

// What each value of a pixel becomes.
using PixelTable = std::array<float, 256>;

// Writes one channel of a picture to `out`, pixel by pixel through the table.
void place_plane(std::span<const std::uint8_t> plane, const Shape& shape, const Placement& placement,
                 const PixelTable& table, float* out);

}  // namespace paceline
