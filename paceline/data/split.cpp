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
  XXH3_64bits_update(state, data.all_keys().data(), data.all_keys().size_bytes());
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

namespace {

// In integers, which are exact, up to the last division: the same on every machine, and 0 for pixels that are all
// equal.
class Moments {
 public:
  void add(std::span<const std::uint8_t> pixels) {
    count_ += pixels.size();
    for (const std::uint64_t pixel : pixels) {
      sum_ += pixel;
      squares_ += pixel * pixel;
    }
  }
  Normalisation::Channel normalisation() const {
    if (count_ == 0) return {};
    const double mean = static_cast<double>(sum_) / static_cast<double>(count_) / 255;
    const double deviation =
        std::sqrt(static_cast<double>(count_ * squares_ - Wide{sum_} * sum_)) / static_cast<double>(count_) / 255;
    return {static_cast<float>(mean), deviation > 0 ? static_cast<float>(1 / deviation) : 1.0F};
  }

 private:
  __extension__ using Wide = unsigned __int128;
  Wide count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t squares_ = 0;
};

Normalisation::Channel normalisation_of_channel(const Dataset& data, std::size_t channel) {
  const std::size_t plane = data.shape().plane();
  Moments moments;
  for (std::size_t i = 0; i < data.size(); ++i) moments.add(data.pixels(i).subspan(channel * plane, plane));
  return moments.normalisation();
}

}  // namespace

Normalisation normalisation_of(const Dataset& data) {
  Moments all;
  all.add(data.all_pixels());
  const Normalisation::Channel whole = all.normalisation();
  Normalisation result{.mean = whole.mean, .scale = whole.scale};
  const auto channels = static_cast<std::size_t>(data.shape().channels);
  for (std::size_t i = 0; channels > 1 && i < channels; ++i)
    result.channels.push_back(normalisation_of_channel(data, i));
  return result;
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

Dataset subset_of_keyed_rows(const Dataset& data, std::span<const std::uint32_t> examples) {
  std::vector<float> values;
  std::vector<std::uint64_t> keys;
  std::vector<std::uint8_t> labels;
  values.reserve(examples.size() * data.shape().pixels());
  keys.reserve(examples.size() * static_cast<std::size_t>(data.form().keys));
  labels.reserve(examples.size());
  for (const std::uint32_t example : examples) {
    values.insert(values.end(), data.values(example).begin(), data.values(example).end());
    keys.insert(keys.end(), data.keys(example).begin(), data.keys(example).end());
    labels.push_back(static_cast<std::uint8_t>(data.label(example)));
  }
  return Dataset::of_keyed_rows(data.form(), std::move(values), std::move(keys), std::move(labels), data.name());
}

}  // namespace

Dataset subset(const Dataset& data, std::span<const std::uint32_t> examples) {
  switch (data.form().kind) {
    case Kind::images: return subset_of_images(data, examples);
    case Kind::table: return subset_of_rows(data, examples);
    case Kind::keyed: return subset_of_keyed_rows(data, examples);
    case Kind::text: break;  // its examples overlap by one character
  }
  throw Error(Code::invalid, fmt::format("{} is one text: no windows can be taken out of it", data.name()));
}

namespace {

std::size_t count_of_share(double share, std::size_t size, const std::string& name) {
  // Written so that a share that is not a number is refused too.
  if (!(share > 0 && share < 1)) {
    throw Error(Code::invalid,
                fmt::format("a share of {} cannot be held out of {}: it must be above 0 and below 1", share, name));
  }
  const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(size)));
  if (count > 0 && count < size) return count;
  throw Error(Code::invalid, fmt::format("holding out a share of {} of the {} examples of {} would leave one part "
                                         "empty: choose another share",
                                         share, size, name));
}

// The last windows: random ones would be seen from both sides in training. The character between the two parts is the
// last to be predicted in the one and the first to be read in the other.
std::pair<Dataset, Dataset> hold_out_of_text(const Dataset& data, std::size_t count) {
  const auto length = data.shape().pixels();
  const auto characters = data.all_pixels();
  const std::size_t border = (data.size() - count) * length;
  const auto part = [&](std::span<const std::uint8_t> of) {
    return Dataset::of_text(data.shape().width, data.classes(), {of.begin(), of.end()}, data.name());
  };
  return {part(characters.first(border + 1)), part(characters.subspan(border))};
}

}  // namespace

Division divide(std::size_t size, double share, std::uint64_t seed, const std::string& name) {
  const std::size_t count = count_of_share(share, size, name);
  const std::vector<std::uint32_t> order = draw(size, count, seed);
  const auto drawn = order.begin() + static_cast<std::ptrdiff_t>(count);
  return {.rest = {drawn, order.end()}, .drawn = {order.begin(), drawn}};
}

std::pair<Dataset, Dataset> hold_out(const Dataset& data, double share, std::uint64_t seed) {
  if (data.form().kind == Kind::text) return hold_out_of_text(data, count_of_share(share, data.size(), data.name()));
  const Division division = divide(data.size(), share, seed, data.name());
  return {subset(data, division.rest), subset(data, division.drawn)};
}

}  // namespace paceline
