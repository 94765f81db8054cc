// libFuzzer target: the readers of IDX and gzip. An input is a mode, then a file; its modes with a packed file reach
// what lies behind gzip's checksum, which the fuzzer does not guess.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/data/idx.hpp"
#include "tests/fuzz/gzip.hpp"

namespace paceline {
namespace {

constexpr int kClasses = 10;

enum class FuzzMode : std::uint8_t { images, labels, packed_images, packed_labels, kCount };

void fuzz_images(const Bytes& file) {
  const IdxImages images = parse_idx_images(file, "fuzzed");
  CHECK(images.count > 0 && images.shape.pixels() > 0, "a set that is read is not empty");
  CHECK(images.pixels.size() == images.count * images.shape.pixels(), "all pixels are there");
  CHECK(images.pixels.size() <= file.size() * kMostPerByte, "pixels come from the file");
}

void fuzz_labels(const Bytes& file) {
  const Bytes labels = parse_idx_labels(file, "fuzzed", kClasses);
  CHECK(!labels.empty() && labels.size() <= file.size() * kMostPerByte, "labels come from the file");
  CHECK(std::all_of(labels.begin(), labels.end(), [](int label) { return label < kClasses; }), "labels are classes");
}

void fuzz(FuzzMode mode, Bytes file) {
  try {
    switch (mode) {
      case FuzzMode::images: return fuzz_images(file);
      case FuzzMode::labels: return fuzz_labels(file);
      case FuzzMode::packed_images: return fuzz_images(gzip(std::move(file)));
      case FuzzMode::packed_labels: return fuzz_labels(gzip(std::move(file)));
      case FuzzMode::kCount: return;
    }
  } catch (const Error& error) {
    CHECK(error.code() == Code::invalid, "a bad file is invalid, nothing else");
  }
}

}  // namespace
}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto mode = static_cast<paceline::FuzzMode>(data[0] % static_cast<int>(paceline::FuzzMode::kCount));
  paceline::fuzz(mode, paceline::Bytes(data + 1, data + size));
  return 0;
}
