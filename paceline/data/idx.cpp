#include "paceline/data/idx.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/error.hpp"
#include "paceline/data/byte_reader.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

constexpr std::uint32_t kImages = 0x00000803;  // unsigned bytes, three sizes
constexpr std::uint32_t kLabels = 0x00000801;  // unsigned bytes, one size

std::uint32_t read_number(ByteReader& reader) {
  const auto bytes = reader.read(4);
  if (bytes.size() < 4) {
    throw Error(Code::invalid, fmt::format("{} ends within its IDX header: fetch it again", reader.name()));
  }
  std::uint32_t number = 0;
  for (const std::uint8_t byte : bytes) number = number << 8 | byte;
  return number;
}

void expect_magic(ByteReader& reader, std::uint32_t wanted) {
  const std::uint32_t magic = read_number(reader);
  if (magic == wanted) return;
  const char* hint = magic == kImages ? ", as images do" : magic == kLabels ? ", as labels do" : "";
  throw Error(Code::invalid, fmt::format("{} begins with {:#010x}{}, but an IDX file of {} begins with {:#010x}",
                                         reader.name(), magic, hint, wanted == kImages ? "images" : "labels", wanted));
}

std::size_t read_count(ByteReader& reader) {
  const std::size_t count = read_number(reader);
  if (count == 0) throw Error(Code::invalid, fmt::format("{} holds no examples", reader.name()));
  if (count <= kMaxExamples) return count;
  throw Error(Code::invalid, fmt::format("the header of {} speaks of {} examples, more than the {} that are possible",
                                         reader.name(), count, kMaxExamples));
}

int read_side(ByteReader& reader) {
  const std::uint32_t side = read_number(reader);
  if (side >= 1 && side <= static_cast<std::uint32_t>(kMaxSide)) return static_cast<int>(side);
  throw Error(Code::invalid, fmt::format("the header of {} speaks of images with a side of {} pixels, but 1 to {} are "
                                         "possible",
                                         reader.name(), side, kMaxSide));
}

// Exactly `count` items of `item_bytes`, then the end.
std::vector<std::uint8_t> read_items(ByteReader& reader, std::size_t count, std::size_t item_bytes) {
  std::vector<std::uint8_t> bytes = reader.read(count * item_bytes);
  if (bytes.size() < count * item_bytes) {
    throw Error(Code::invalid, fmt::format("the header of {} speaks of {} examples, but the file ends in example {}: "
                                           "fetch it again",
                                           reader.name(), count, bytes.size() / item_bytes));
  }
  if (!reader.at_end()) {
    throw Error(Code::invalid, fmt::format("{} goes on after the {} examples that its header speaks of: fetch it again",
                                           reader.name(), count));
  }
  return bytes;
}

Dataset read_part(const std::string& folder, const std::string& part, const std::string& name, int classes) {
  const std::string images_path = find_file(folder, part + "-images-idx3-ubyte");
  const std::string labels_path = find_file(folder, part + "-labels-idx1-ubyte");
  IdxImages images = parse_idx_images(load_file(images_path), images_path);
  std::vector<std::uint8_t> labels = parse_idx_labels(load_file(labels_path), labels_path, classes);
  if (images.count != labels.size()) {
    throw Error(Code::invalid, fmt::format("{} has {} images, but {} has {} labels: they do not belong together",
                                           images_path, images.count, labels_path, labels.size()));
  }
  return Dataset(images.shape, classes, std::move(images.pixels), std::move(labels), name);
}

}  // namespace

IdxImages parse_idx_images(std::span<const std::uint8_t> file, const std::string& name) {
  ByteReader reader(file, name);
  expect_magic(reader, kImages);
  IdxImages images;
  images.count = read_count(reader);
  images.shape.height = read_side(reader);
  images.shape.width = read_side(reader);
  images.pixels = read_items(reader, images.count, images.shape.pixels());
  return images;
}

std::vector<std::uint8_t> parse_idx_labels(std::span<const std::uint8_t> file, const std::string& name, int classes) {
  ByteReader reader(file, name);
  expect_magic(reader, kLabels);
  const std::size_t count = read_count(reader);
  std::vector<std::uint8_t> labels = read_items(reader, count, 1);
  const auto bad = std::find_if(labels.begin(), labels.end(), [&](int label) { return label >= classes; });
  if (bad == labels.end()) return labels;
  throw Error(Code::invalid, fmt::format("the label of example {} in {} is {}, but there are {} classes, from 0",
                                         bad - labels.begin(), name, *bad, classes));
}

DataSplit read_idx_folder(const std::string& folder, const std::string& name, int classes) {
  require_folder(folder, name);
  return make_split(read_part(folder, "train", name + " train", classes),
                    read_part(folder, "t10k", name + " test", classes));
}

}  // namespace paceline
