#include "paceline/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

bool within(int value, int limit) { return value >= 1 && value <= limit; }

void check_classes(int classes, const std::string& name) {
  if (within(classes, kMaxClasses)) return;
  throw Error(Code::invalid, fmt::format("{}: {} classes, but it must be 1 to {}", name, classes, kMaxClasses));
}

void check_shape(const Shape& shape, int classes, const std::string& name) {
  if (!within(shape.channels, kMaxChannels) || !within(shape.height, kMaxSide) || !within(shape.width, kMaxSide)) {
    throw Error(Code::invalid, fmt::format("{}: examples of {} are impossible, at most {}x{}x{} are", name,
                                           to_string(shape), kMaxChannels, kMaxSide, kMaxSide));
  }
  check_classes(classes, name);
}

// `unit`: what an example is made of.
void check_sizes(const Shape& shape, std::size_t parts, const char* unit, std::size_t examples,
                 const std::string& name) {
  if (examples == 0) throw Error(Code::invalid, fmt::format("{} has no examples", name));
  if (examples > kMaxExamples) {
    throw Error(Code::invalid, fmt::format("{} has {} examples, more than {}", name, examples, kMaxExamples));
  }
  if (parts != examples * shape.pixels()) {
    throw Error(Code::invalid, fmt::format("{}: {} labels of examples of {} need {} {}, but there are {}", name,
                                           examples, to_string(shape), examples * shape.pixels(), unit, parts));
  }
}

void check_labels(const std::vector<std::uint8_t>& labels, int classes, const std::string& name) {
  const auto bad = std::find_if(labels.begin(), labels.end(), [&](int label) { return label >= classes; });
  if (bad == labels.end()) return;
  throw Error(Code::invalid, fmt::format("{}: the label of example {} is {}, but there are {} classes, from 0", name,
                                         bad - labels.begin(), *bad, classes));
}

Form form_of_rows(int columns, int classes, const std::string& name, int keys = 0) {
  if (!within(columns, kMaxColumns)) {
    throw Error(Code::invalid, fmt::format("{}: {} columns, but it must be 1 to {}", name, columns, kMaxColumns));
  }
  if (keys == 0) return {.kind = Kind::table, .shape = {.width = columns}, .classes = classes};
  if (within(keys, kMaxColumns))
    return {.kind = Kind::keyed, .shape = {.width = columns}, .classes = classes, .keys = keys};
  throw Error(Code::invalid, fmt::format("{}: {} keys, but it must be 1 to {}", name, keys, kMaxColumns));
}

void check_finite(const std::vector<float>& numbers, const char* what, const std::string& name) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float number) { return !std::isfinite(number); });
  if (bad == numbers.end()) return;
  throw Error(Code::invalid, fmt::format("{}: {} {} is not a finite number", name, what, bad - numbers.begin()));
}

}  // namespace

std::string to_string(const Shape& shape) { return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width); }

std::string to_string(const Form& form) {
  const std::string goal = form.classes > 0 ? fmt::format("in {} classes", form.classes) : "with a number to predict";
  switch (form.kind) {
    case Kind::images: return fmt::format("images of {} {}", to_string(form.shape), goal);
    case Kind::table: return fmt::format("rows of {} columns {}", form.shape.width, goal);
    case Kind::text: return fmt::format("text of {} characters in windows of {}", form.classes, form.shape.width);
    case Kind::keyed: return fmt::format("rows of {} numbers and {} keys {}", form.shape.width, form.keys, goal);
  }
  CHECK(false, "a kind of data has a name");
}

Dataset::Dataset(Form form, std::size_t size, Content content, std::string name)
    : form_(form), name_(std::move(name)), size_(size), content_(std::make_shared<const Content>(std::move(content))) {}

Dataset::Dataset(Shape shape, int classes, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
                 std::string name)
    : form_({.kind = Kind::images, .shape = shape, .classes = classes}), name_(std::move(name)), size_(labels.size()) {
  check_shape(shape, classes, name_);
  check_sizes(shape, pixels.size(), "pixels", labels.size(), name_);
  check_labels(labels, classes, name_);
  content_ = std::make_shared<const Content>(Content{.bytes = std::move(pixels), .labels = std::move(labels)});
}

Dataset Dataset::of_rows(int columns, int classes, std::vector<float> values, std::vector<std::uint8_t> labels,
                         std::string name) {
  const Form form = form_of_rows(columns, classes, name);
  check_classes(classes, name);
  check_sizes(form.shape, values.size(), "values", labels.size(), name);
  check_labels(labels, classes, name);
  check_finite(values, "value", name);
  const std::size_t size = labels.size();
  return {form, size, Content{.labels = std::move(labels), .values = std::move(values)}, std::move(name)};
}

Dataset Dataset::of_rows(int columns, std::vector<float> values, std::vector<float> targets, std::string name) {
  const Form form = form_of_rows(columns, 0, name);
  check_sizes(form.shape, values.size(), "values", targets.size(), name);
  check_finite(values, "value", name);
  check_finite(targets, "target", name);
  const std::size_t size = targets.size();
  return {form, size, Content{.values = std::move(values), .targets = std::move(targets)}, std::move(name)};
}

Dataset Dataset::of_keyed_rows(Form form, std::vector<float> values, std::vector<std::uint64_t> keys,
                               std::vector<std::uint8_t> labels, std::string name) {
  form = form_of_rows(form.shape.width, form.classes, name, form.keys);
  check_classes(form.classes, name);
  check_sizes(form.shape, values.size(), "values", labels.size(), name);
  check_sizes({.width = form.keys}, keys.size(), "keys", labels.size(), name);
  check_labels(labels, form.classes, name);
  check_finite(values, "value", name);
  const std::size_t size = labels.size();
  return {form, size, Content{.labels = std::move(labels), .values = std::move(values), .keys = std::move(keys)},
          std::move(name)};
}

Dataset Dataset::of_text(int length, int vocabulary, std::vector<std::uint8_t> characters, std::string name) {
  if (!within(length, kMaxColumns)) {
    throw Error(Code::invalid, fmt::format("{}: windows of {}, but it must be 1 to {}", name, length, kMaxColumns));
  }
  check_classes(vocabulary, name);
  check_labels(characters, vocabulary, name);
  const std::size_t windows = characters.empty() ? 0 : (characters.size() - 1) / static_cast<std::size_t>(length);
  if (windows == 0 || windows > kMaxExamples) {
    throw Error(Code::invalid, fmt::format("{} has {} characters, which is {} for windows of {}", name,
                                           characters.size(), windows == 0 ? "too few" : "too many", length));
  }
  const Form form{.kind = Kind::text, .shape = {.width = length}, .classes = vocabulary};
  return {form, windows, Content{.bytes = std::move(characters)}, std::move(name)};
}

std::span<const std::uint8_t> Dataset::pixels(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  CHECK(form_.kind == Kind::images, "only images have pixels");
  return std::span(content_->bytes).subspan(example * form_.shape.pixels(), form_.shape.pixels());
}

std::span<const float> Dataset::values(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  CHECK(form_.kind == Kind::table || form_.kind == Kind::keyed, "only rows have values");
  return std::span(content_->values).subspan(example * form_.shape.pixels(), form_.shape.pixels());
}

std::span<const std::uint64_t> Dataset::keys(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  CHECK(form_.kind == Kind::keyed, "only keyed rows have keys");
  const auto each = static_cast<std::size_t>(form_.keys);
  return std::span(content_->keys).subspan(example * each, each);
}

std::span<const std::uint8_t> Dataset::characters(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  CHECK(form_.kind == Kind::text, "only text has characters");
  const auto length = static_cast<std::size_t>(form_.shape.width);
  return std::span(content_->bytes).subspan(example * length, length + 1);
}

int Dataset::label(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  return content_->labels.at(example);
}

float Dataset::target(std::size_t example) const {
  CHECK(example < size_, "an example's number is below the size of its data set");
  return content_->targets.at(example);
}

std::span<const std::uint8_t> Dataset::all_pixels() const {
  return content_ ? std::span<const std::uint8_t>(content_->bytes) : std::span<const std::uint8_t>();
}

std::span<const std::uint8_t> Dataset::all_labels() const {
  return content_ ? std::span<const std::uint8_t>(content_->labels) : std::span<const std::uint8_t>();
}

std::span<const float> Dataset::all_values() const {
  return content_ ? std::span<const float>(content_->values) : std::span<const float>();
}

std::span<const float> Dataset::all_targets() const {
  return content_ ? std::span<const float>(content_->targets) : std::span<const float>();
}

std::span<const std::uint64_t> Dataset::all_keys() const {
  return content_ ? std::span<const std::uint64_t>(content_->keys) : std::span<const std::uint64_t>();
}

}  // namespace paceline
