// Dataset: examples in memory, with what is to be learned of each. Immutable once made, cheap to copy (copies share the
// memory), thread-safe to read.
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
  std::size_t plane() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);  // 1x28x28

// What an example is, and what a model has to say about it.
enum class Kind {
  images,  // 8-bit pixels; their class
  table,   // a row of numbers; its class, or a number if there are no classes
  text,    // a window of characters; for each of them the next one
  keyed,   // a row of numbers, and of 64-bit keys that stand for categories; its class
};

struct Form {
  Kind kind = Kind::images;
  Shape shape;      // of a table's and of keyed rows 1x1xcolumns, of text 1x1xlength
  int classes = 0;  // of text: different characters; 0: a number is to be predicted
  int keys = 0;     // of a keyed row

  int outputs() const { return classes > 0 ? classes : 1; }
  // Of one example.
  int predictions() const { return kind == Kind::text ? shape.width : 1; }
  bool operator==(const Form&) const = default;
};

std::string to_string(const Form& form);  // "images of 1x28x28 in 10 classes"

// Limits of what a Dataset takes, so that a size never overflows and an example's number fits 32 bits.
inline constexpr int kMaxSide = 4096;  // height or width
inline constexpr int kMaxChannels = 64;
inline constexpr int kMaxClasses = 256;
inline constexpr int kMaxColumns = 65536;  // of a table
inline constexpr std::size_t kMaxExamples = 1'000'000'000;

class Dataset {
 public:
  Dataset() = default;
  // Pixels example by example, each channels x height x width. Error{invalid} if sizes or labels do not fit together.
  Dataset(Shape shape, int classes, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
          std::string name);
  // Rows of `columns` numbers each, with a class each, or with a number to predict. Error{invalid}, as above, also if
  // a number is not finite.
  static Dataset of_rows(int columns, int classes, std::vector<float> values, std::vector<std::uint8_t> labels,
                         std::string name);
  static Dataset of_rows(int columns, std::vector<float> values, std::vector<float> targets, std::string name);
  // Rows of numbers and keys, as many of each as the form says, with a class each. Error{invalid}, as above.
  static Dataset of_keyed_rows(Form form, std::vector<float> values, std::vector<std::uint64_t> keys,
                               std::vector<std::uint8_t> labels, std::string name);
  // Windows of `length` characters, each a number below `vocabulary`. The windows follow each other without overlap;
  // what is left at the end is not used. Error{invalid} if there is not even one window and the character after it.
  static Dataset of_text(int length, int vocabulary, std::vector<std::uint8_t> characters, std::string name);

  std::size_t size() const { return size_; }
  const Form& form() const { return form_; }
  const Shape& shape() const { return form_.shape; }
  int classes() const { return form_.classes; }
  const std::string& name() const { return name_; }

  // What an example is made of: pixels of images, values and keys of a row, or the characters of a window and the one
  // after it.
  std::span<const std::uint8_t> pixels(std::size_t example) const;
  std::span<const float> values(std::size_t example) const;
  std::span<const std::uint64_t> keys(std::size_t example) const;
  std::span<const std::uint8_t> characters(std::size_t example) const;
  int label(std::size_t example) const;
  float target(std::size_t example) const;
  // Those of all examples, one after the other; empty where the kind has none. Of text, pixels are its characters.
  std::span<const std::uint8_t> all_pixels() const;
  std::span<const std::uint8_t> all_labels() const;
  std::span<const float> all_values() const;
  std::span<const float> all_targets() const;
  std::span<const std::uint64_t> all_keys() const;

 private:
  struct Content {
    std::vector<std::uint8_t> bytes = {};  // pixels or characters
    std::vector<std::uint8_t> labels = {};
    std::vector<float> values = {};
    std::vector<float> targets = {};
    std::vector<std::uint64_t> keys = {};
  };
  Dataset(Form form, std::size_t size, Content content, std::string name);

  Form form_;
  std::string name_;
  std::size_t size_ = 0;
  std::shared_ptr<const Content> content_;  // shared: loaders on several threads read the same examples
};

// A pixel p becomes (p / 255 - mean) * scale. Those of the training set, also for the test set.
struct Normalisation {
  struct Channel {
    float mean = 0;
    float scale = 1;
  };

  float mean = 0;  // of all pixels
  float scale = 1;
  std::vector<Channel> channels = {};  // of images of several channels, which have one each; then those hold

  Channel of(int channel) const {
    return channels.empty() ? Channel{mean, scale} : channels.at(static_cast<std::size_t>(channel));
  }
};

struct DataSplit {
  Dataset train;
  Dataset test;
  Normalisation normalisation;
  std::uint64_t fingerprint = 0;              // XXH3 of the content: a checkpoint of other data is recognised by it
  std::string vocabulary = {};                // of text: the characters by their numbers
  std::vector<std::string> class_names = {};  // of a table's classes, by their numbers
};

}  // namespace paceline
