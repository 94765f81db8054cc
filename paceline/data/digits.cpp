#include "paceline/data/digits.hpp"

#include "paceline/core/check.hpp"
#include "paceline/data/byte_reader.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

constexpr Shape kShape = {.channels = 1, .height = 8, .width = 8};
constexpr std::size_t kExamples = 1797;
constexpr std::size_t kTestEvery = 6;
constexpr int kBrightest = 16;

std::uint8_t spread(std::uint8_t value) {
  CHECK(value <= kBrightest, "a pixel of the built-in digits is 0 to 16");
  return static_cast<std::uint8_t>((value * 255 + kBrightest / 2) / kBrightest);
}

struct Part {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  void add(std::span<const std::uint8_t> record) {
    for (const std::uint8_t value : record.first(record.size() - 1)) pixels.push_back(spread(value));
    labels.push_back(record.back());
  }
  Dataset finish(const char* name) { return Dataset(kShape, 10, std::move(pixels), std::move(labels), name); }
};

}  // namespace

DataSplit read_digits() {
  const std::size_t record = kShape.pixels() + 1;
  ByteReader reader(digits_file(), "the built-in digits");
  const std::vector<std::uint8_t> bytes = reader.read(kExamples * record);
  CHECK(bytes.size() == kExamples * record && reader.at_end(), "the built-in digits are complete");
  Part train;
  Part test;
  for (std::size_t i = 0; i < kExamples; ++i) {
    (i % kTestEvery == 0 ? test : train).add(std::span(bytes).subspan(i * record, record));
  }
  return make_split(train.finish("digits train"), test.finish("digits test"));
}

}  // namespace paceline
