// Dataset: labelled examples in memory, 8-bit pixels. Immutable once made, cheap to copy (copies share the memory),
// thread-safe to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline {

struct Shape {
  int channels = 1;
  int height = 1;
  int width = 1;

  std::size_t pixels() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);  // 1x28x28

// Limits of what a Dataset takes, so that a size never overflows and an example's number fits 32 bits.
inline constexpr int kMaxSide = 4096;  // height or width
inline constexpr int kMaxChannels = 64;
inline constexpr int kMaxClasses = 256;
inline constexpr std::size_t kMaxExamples = 1'000'000'000;

class Dataset {
 public:
  Dataset() = default;
  // Pixels example by example, each channels x height x width. Error{invalid} if sizes or labels do not fit together.
  Dataset(Shape shape, int classes, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
          std::string name);

  std::size_t size() const { return size_; }
  const Shape& shape() const { return shape_; }
  int classes() const { return classes_; }
  const std::string& name() const { return name_; }

  std::span<const std::uint8_t> pixels(std::size_t example) const;
  int label(std::size_t example) const;
  // Those of all examples, one after the other.
  std::span<const std::uint8_t> all_pixels() const;
  std::span<const std::uint8_t> all_labels() const;

 private:
  struct Content {
    std::vector<std::uint8_t> pixels;
    std::vector<std::uint8_t> labels;
  };

  Shape shape_;
  int classes_ = 0;
  std::string name_;
  std::size_t size_ = 0;
  std::shared_ptr<const Content> content_;  // shared: loaders on several threads read the same examples
};

// A pixel p becomes (p / 255 - mean) * scale. Those of the training set, also for the test set.
struct Normalisation {
  float mean = 0;
  float scale = 1;
};

struct DataSplit {
  Dataset train;
  Dataset test;
  Normalisation normalisation;
  std::uint64_t fingerprint = 0;  // XXH3 of the content: a checkpoint of other data is recognised by it
};

}  // namespace paceline
