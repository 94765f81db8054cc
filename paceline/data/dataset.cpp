#include "paceline/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

bool within(int value, int limit) { return value >= 1 && value <= limit; }

void check_shape(const Shape& shape, int classes, const std::string& name) {
  if (!within(shape.channels, kMaxChannels) || !within(shape.height, kMaxSide) || !within(shape.width, kMaxSide)) {
    throw Error(Code::invalid, fmt::format("{}: examples of {} are impossible, at most {}x{}x{} are", name,
                                           to_string(shape), kMaxChannels, kMaxSide, kMaxSide));
  }
  if (!within(classes, kMaxClasses)) {
    throw Error(Code::invalid, fmt::format("{}: {} classes, but it must be 1 to {}", name, classes, kMaxClasses));
  }
}

void check_sizes(const Shape& shape, std::size_t pixels, std::size_t examples, const std::string& name) {
  if (examples == 0) throw Error(Code::invalid, fmt::format("{} has no examples", name));
  if (examples > kMaxExamples) {
    throw Error(Code::invalid, fmt::format("{} has {} examples, more than {}", name, examples, kMaxExamples));
  }
  if (pixels != examples * shape.pixels()) {
    throw Error(Code::invalid, fmt::format("{}: {} labels of examples of {} need {} pixels, but there are {}", name,
                                           examples, to_string(shape), examples * shape.pixels(), pixels));
  }
}

void check_labels(const std::vector<std::uint8_t>& labels, int classes, const std::string& name) {
  const auto bad = std::find_if(labels.begin(), labels.end(), [&](int label) { return label >= classes; });
  if (bad == labels.end()) return;
  throw Error(Code::invalid, fmt::format("{}: the label of example {} is {}, but there are {} classes, from 0", name,
                                         bad - labels.begin(), *bad, classes));
}

}  // namespace

std::string to_string(const Shape& shape) { return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width); }

Dataset::Dataset(Shape shape, int classes, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
                 std::string name)
    : shape_(shape), classes_(classes), name_(std::move(name)), size_(labels.size()) {
  check_shape(shape, classes, name_);
  check_sizes(shape, pixels.size(), labels.size(), name_);
  check_labels(labels, classes, name_);
  content_ = std::make_shared<const Content>(Content{std::move(pixels), std::move(labels)});
}

std::span<const std::uint8_t> Dataset::pixels(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  return std::span(content_->pixels).subspan(example * shape_.pixels(), shape_.pixels());
}

int Dataset::label(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  return content_->labels[example];
}

std::span<const std::uint8_t> Dataset::all_pixels() const {
  return content_ ? std::span<const std::uint8_t>(content_->pixels) : std::span<const std::uint8_t>();
}

std::span<const std::uint8_t> Dataset::all_labels() const {
  return content_ ? std::span<const std::uint8_t>(content_->labels) : std::span<const std::uint8_t>();
}

}  // namespace paceline
