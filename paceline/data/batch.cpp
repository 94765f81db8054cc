#include "paceline/data/batch.hpp"

#include <algorithm>
#include <bit>

namespace paceline {
namespace {

PixelTable normalised_values(const Normalisation::Channel& normalisation) {
  PixelTable table;
  for (std::size_t value = 0; value < table.size(); ++value) {
    table[value] = (static_cast<float>(value) / 255.0F - normalisation.mean) * normalisation.scale;
  }
  return table;
}

void fill_plane(std::span<const std::uint8_t> plane, const PixelTable& table, float* out) {
  std::transform(plane.begin(), plane.end(), out, [&](std::uint8_t value) { return table[value]; });
}

// A table costs as much as a third of one 28x28 image, and then every pixel is one load. Channel by channel, so that
// one table, on the stack, is enough.
void fill_images(Batch& batch, const Dataset& data, const Normalisation& normalisation,
                 std::span<const std::uint32_t> indices, const Augmenter* augmenter) {
  const Shape& shape = data.shape();
  const std::size_t plane = shape.plane();
  for (int channel = 0; channel < shape.channels; ++channel) {
    const PixelTable table = normalised_values(normalisation.of(channel));
    const std::size_t first = static_cast<std::size_t>(channel) * plane;
    float* out = batch.values.data() + first;
    for (const std::uint32_t index : indices) {
      const auto pixels = data.pixels(index).subspan(first, plane);
      if (augmenter != nullptr) {
        place_plane(pixels, shape, augmenter->place(index), table, out);
      } else {
        fill_plane(pixels, table, out);
      }
      out += shape.pixels();
    }
  }
}

void fill_rows(Batch& batch, const Dataset& data, std::span<const std::uint32_t> indices) {
  float* out = batch.values.data();
  for (const std::uint32_t index : indices) {
    const auto values = data.values(index);
    out = std::copy(values.begin(), values.end(), out);
  }
}

void fill_text(Batch& batch, const Dataset& data, std::span<const std::uint32_t> indices) {
  const std::size_t length = data.shape().pixels();
  batch.tokens.resize(indices.size() * length);
  batch.labels.resize(indices.size() * length);
  std::int64_t* token = batch.tokens.data();
  std::int64_t* next = batch.labels.data();
  for (const std::uint32_t index : indices) {
    const auto characters = data.characters(index);
    token = std::copy(characters.begin(), characters.end() - 1, token);
    next = std::copy(characters.begin() + 1, characters.end(), next);
  }
}

// One list for both, so that a batch is one tensor whatever its kind.
void fill_keyed(Batch& batch, const Dataset& data, std::span<const std::uint32_t> indices) {
  const auto each = static_cast<std::size_t>(data.form().keys) + data.shape().pixels();
  batch.tokens.resize(indices.size() * each);
  std::int64_t* token = batch.tokens.data();
  for (const std::uint32_t index : indices) {
    for (const std::uint64_t key : data.keys(index)) *token++ = static_cast<std::int64_t>(key);
    for (const float value : data.values(index)) *token++ = std::bit_cast<std::int64_t>(static_cast<double>(value));
  }
}

void fill_answers(Batch& batch, const Dataset& data, std::span<const std::uint32_t> indices) {
  const bool numbers = data.classes() == 0;
  batch.labels.resize(numbers ? 0 : indices.size());
  batch.targets.resize(numbers ? indices.size() : 0);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (numbers) {
      batch.targets[i] = data.target(indices[i]);
    } else {
      batch.labels[i] = data.label(indices[i]);
    }
  }
}

void fill_batch(Batch& batch, const Dataset& data, const Normalisation& normalisation,
                std::span<const std::uint32_t> indices, const Augmenter* augmenter) {
  batch.examples = indices.size();
  if (data.form().kind == Kind::text) return fill_text(batch, data, indices);
  if (data.form().kind == Kind::keyed) {
    fill_keyed(batch, data, indices);
    return fill_answers(batch, data, indices);
  }
  batch.values.resize(indices.size() * data.shape().pixels());
  if (data.form().kind == Kind::images) {
    fill_images(batch, data, normalisation, indices, augmenter);
  } else {
    fill_rows(batch, data, indices);
  }
  fill_answers(batch, data, indices);
}

}  // namespace

void fill(Batch& batch, const Dataset& data, const Normalisation& normalisation,
          std::span<const std::uint32_t> indices) {
  fill_batch(batch, data, normalisation, indices, nullptr);
}

void fill(Batch& batch, const Dataset& data, const Normalisation& normalisation, std::span<const std::uint32_t> indices,
          const Augmenter& augmenter) {
  fill_batch(batch, data, normalisation, indices, augmenter.augmentation.any() ? &augmenter : nullptr);
}

}  // namespace paceline
