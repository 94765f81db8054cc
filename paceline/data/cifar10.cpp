#include "paceline/data/cifar10.hpp"

#include <fmt/format.h>

#include "paceline/core/error.hpp"
#include "paceline/data/byte_reader.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

constexpr int kBatches = 5;
const std::size_t kRecord = 1 + kCifarShape.pixels();

void add_file(const std::string& path, CifarRecords& records) { parse_cifar10(load_file(path), path, records); }

Dataset finish(CifarRecords records, const char* name) {
  return Dataset(kCifarShape, kCifarClasses, std::move(records.pixels), std::move(records.labels), name);
}

Dataset read_train(const std::string& folder) {
  CifarRecords records;
  for (int i = 1; i <= kBatches; ++i) {
    if (const auto path = look_for_file(folder, fmt::format("data_batch_{}.bin", i))) add_file(*path, records);
  }
  if (!records.labels.empty()) return finish(std::move(records), "cifar10 train");
  throw Error(Code::invalid, fmt::format("there is none of data_batch_1.bin to data_batch_{}.bin in {}, with .gz or "
                                         "without: it must be CIFAR-10's binary version",
                                         kBatches, folder));
}

Dataset read_test(const std::string& folder) {
  CifarRecords records;
  add_file(find_file(folder, "test_batch.bin"), records);
  return finish(std::move(records), "cifar10 test");
}

}  // namespace

void parse_cifar10(std::span<const std::uint8_t> file, const std::string& name, CifarRecords& records) {
  const std::vector<std::uint8_t> bytes = ByteReader(file, name).read_rest();
  if (bytes.empty()) throw Error(Code::invalid, fmt::format("{} is empty: fetch it again", name));
  const std::size_t count = bytes.size() / kRecord;
  if (bytes.size() % kRecord != 0) {
    throw Error(Code::invalid, fmt::format("{} has {} bytes and so ends in record {}, where records of CIFAR-10 have "
                                           "{} bytes: fetch it again",
                                           name, bytes.size(), count, kRecord));
  }
  records.pixels.reserve(records.pixels.size() + count * kCifarShape.pixels());
  for (std::size_t i = 0; i < count; ++i) {
    const auto record = std::span(bytes).subspan(i * kRecord, kRecord);
    if (record[0] >= kCifarClasses) {
      throw Error(Code::invalid, fmt::format("the label of record {} in {} is {}, but CIFAR-10 has {} classes, from 0",
                                             i, name, record[0], kCifarClasses));
    }
    records.labels.push_back(record[0]);
    records.pixels.insert(records.pixels.end(), record.begin() + 1, record.end());
  }
}

DataSplit read_cifar10_folder(const std::string& folder) {
  require_folder(folder, "cifar10");
  Dataset train = read_train(folder);
  return make_split(std::move(train), read_test(folder));
}

}  // namespace paceline
