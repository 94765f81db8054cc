// libFuzzer target: the readers of IDX and gzip. An input is a mode, then a file; its modes with a packed file reach
// what lies behind gzip's checksum, which the fuzzer does not guess.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/data/idx.hpp"

namespace paceline {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr int kClasses = 10;
constexpr std::size_t kMostPerByte = 1032;  // what deflate can make of one byte

enum class FuzzMode : std::uint8_t { images, labels, packed_images, packed_labels, kCount };

Bytes gzip(Bytes bytes) {
  z_stream stream = {};
  CHECK(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib begins");
  Bytes packed(deflateBound(&stream, bytes.size()));
  stream.next_in = bytes.data();
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib ends");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

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
