#include "paceline/data/split.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

// Apart from the streams of a Sampler of the same seed, which are its epochs.
constexpr std::uint64_t kHoldOutStream = ~std::uint64_t{0};

void hash(XXH3_state_t* state, const Dataset& data) {
  const Shape& shape = data.shape();
  const std::uint64_t sizes[] = {static_cast<std::uint64_t>(shape.channels), static_cast<std::uint64_t>(shape.height),
                                 static_cast<std::uint64_t>(shape.width), static_cast<std::uint64_t>(data.classes()),
                                 data.size()};
  XXH3_64bits_update(state, sizes, sizeof sizes);
  XXH3_64bits_update(state, data.all_pixels().data(), data.all_pixels().size());
  XXH3_64bits_update(state, data.all_labels().data(), data.all_labels().size());
  XXH3_64bits_update(state, data.all_values().data(), data.all_values().size_bytes());
  XXH3_64bits_update(state, data.all_targets().data(), data.all_targets().size_bytes());
}

// The first `count` of a random permutation of 0 … size-1, sorted, then the others, sorted.
std::vector<std::uint32_t> draw(std::size_t size, std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  Random random(seed, kHoldOutStream);
  for (std::size_t i = 0; i < count; ++i) std::swap(order[i], order[i + random.below(size - i)]);
  const auto drawn = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(order.begin(), drawn);
  std::sort(drawn, order.end());
  return order;
}

}  // namespace

DataSplit make_split(Dataset train, Dataset test) {
  if (train.form() != test.form()) {
    throw Error(Code::invalid, fmt::format("{} has {}, but {} has {}", train.name(), to_string(train.form()),
                                           test.name(), to_string(test.form())));
  }
  const Normalisation normalisation = train.form().kind == Kind::images ? normalisation_of(train) : Normalisation{};
  const std::uint64_t fingerprint = fingerprint_of(train, test);
  return {std::move(train), std::move(test), normalisation, fingerprint};
}

// In integers, which are exact, up to the last division: the same on every machine, and 0 for pixels that are all
// equal.
Normalisation normalisation_of(const Dataset& data) {
  __extension__ using Wide = unsigned __int128;
  const Wide count = data.all_pixels().size();
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  for (const std::uint64_t pixel : data.all_pixels()) {
    sum += pixel;
    squares += pixel * pixel;
  }
  if (count == 0) return {};
  const double mean = static_cast<double>(sum) / static_cast<double>(count) / 255;
  const double deviation =
      std::sqrt(static_cast<double>(count * squares - Wide{sum} * sum)) / static_cast<double>(count) / 255;
  return {static_cast<float>(mean), deviation > 0 ? static_cast<float>(1 / deviation) : 1.0F};
}

std::uint64_t fingerprint_of(const Dataset& train, const Dataset& test) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  hash(&state, train);
  hash(&state, test);
  return XXH3_64bits_digest(&state);
}

namespace {

Dataset subset_of_images(const Dataset& data, std::span<const std::uint32_t> examples) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  pixels.reserve(examples.size() * data.shape().pixels());
  labels.reserve(examples.size());
  for (const std::uint32_t example : examples) {
    const auto picture = data.pixels(example);
    pixels.insert(pixels.end(), picture.begin(), picture.end());
    labels.push_back(static_cast<std::uint8_t>(data.label(example)));
  }
  return Dataset(data.shape(), data.classes(), std::move(pixels), std::move(labels), data.name());
}

Dataset subset_of_rows(const Dataset& data, std::span<const std::uint32_t> examples) {
  std::vector<float> values, targets;
  std::vector<std::uint8_t> labels;
  values.reserve(examples.size() * data.shape().pixels());
  for (const std::uint32_t example : examples) {
    const auto row = data.values(example);
    values.insert(values.end(), row.begin(), row.end());
    if (data.classes() > 0) {
      labels.push_back(static_cast<std::uint8_t>(data.label(example)));
    } else {
      targets.push_back(data.target(example));
    }
  }
  const int columns = data.shape().width;
  return data.classes() > 0
             ? Dataset::of_rows(columns, data.classes(), std::move(values), std::move(labels), data.name())
             : Dataset::of_rows(columns, std::move(values), std::move(targets), data.name());
}

}  // namespace

Dataset subset(const Dataset& data, std::span<const std::uint32_t> examples) {
  switch (data.form().kind) {
    case Kind::images: return subset_of_images(data, examples);
    case Kind::table: return subset_of_rows(data, examples);
    case Kind::text: break;  // its examples overlap by one character
  }
  throw Error(Code::invalid, fmt::format("no part of {} can be held out: it is one text", data.name()));
}

std::pair<Dataset, Dataset> hold_out(const Dataset& data, double share, std::uint64_t seed) {
  // Written so that a share that is not a number is refused too.
  if (!(share > 0 && share < 1)) {
    throw Error(Code::invalid, fmt::format("a share of {} cannot be held out of {}: it must be above 0 and below 1",
                                           share, data.name()));
  }
  const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(data.size())));
  if (count == 0 || count >= data.size()) {
    throw Error(Code::invalid, fmt::format("holding out a share of {} of the {} examples of {} would leave one part "
                                           "empty: choose another share",
                                           share, data.size(), data.name()));
  }
  const std::vector<std::uint32_t> order = draw(data.size(), count, seed);
  const std::span<const std::uint32_t> all(order);
  return {subset(data, all.subspan(count)), subset(data, all.first(count))};
}

}  // namespace paceline
