#include "paceline/data/byte_reader.hpp"

#include <gtest/gtest.h>

#include "paceline/data/data_test_support.hpp"

namespace paceline {
namespace {

Bytes counting(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * i >> 3);
  return bytes;
}

std::string refusal_of(const Bytes& file) {
  return refusal([&] { ByteReader(file, "f.gz").read(std::size_t{1} << 40); });
}

TEST(ByteReader, GivesWhatIsThereAndNoMore) {
  const Bytes file = counting(1000);
  ByteReader reader(file, "f");
  EXPECT_EQ(reader.read(10), Bytes(file.begin(), file.begin() + 10));
  EXPECT_FALSE(reader.at_end());  // takes one
  EXPECT_EQ(reader.read(std::size_t{1} << 50), Bytes(file.begin() + 11, file.end()));
  EXPECT_TRUE(reader.at_end());
}

TEST(ByteReader, UnpacksGzipInPiecesOfAnySize) {
  const Bytes content = counting(5'000'000);
  const Bytes file = gzip(content);
  for (const std::size_t piece : {std::size_t{999}, std::size_t{1} << 20, std::size_t{5'000'000}, SIZE_MAX}) {
    ByteReader reader(file, "f");
    Bytes all;
    for (Bytes some = reader.read(piece); !some.empty(); some = reader.read(piece)) all = std::move(all) + some;
    EXPECT_EQ(all, content) << piece;
  }
}

TEST(ByteReader, UnpacksConcatenatedGzip) {
  const Bytes file = gzip({1, 2}) + gzip({}) + gzip({3});
  EXPECT_EQ(ByteReader(file, "f").read(100), (Bytes{1, 2, 3}));
}

TEST(ByteReader, AnEmptyFileIsAtItsEnd) { EXPECT_TRUE(ByteReader({}, "f").at_end()); }

TEST(ByteReader, EveryTruncationOfGzipIsRefused) {
  const Bytes whole = gzip(counting(300));
  for (std::size_t length = 2; length < whole.size(); ++length) {
    EXPECT_TRUE(says(refusal_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))),
                     "f.gz ends after " + std::to_string(length) + " bytes"));
  }
}

TEST(ByteReader, ChangedGzipIsRefused) {
  Bytes file = gzip(counting(300));
  file[file.size() - 6] ^= 1;  // in the checksum
  EXPECT_TRUE(says(refusal_of(file), "the gzip data of f.gz are damaged near byte"));
  EXPECT_TRUE(says(refusal_of(file), "incorrect data check"));
}

TEST(ByteReader, GarbageAfterGzipIsRefused) {
  EXPECT_TRUE(says(refusal_of(gzip({1, 2}) + Bytes{0, 0, 0}), "3 bytes that are no gzip data follow byte 22 of f.gz"));
}

TEST(LoadFile, SaysWhyItCannot) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(refusal([&] { load_file(folder.path() + "/none"); }), "/none: No such file or directory"));
  EXPECT_TRUE(says(refusal([&] { load_file(folder.path()); }), "not a file"));
  EXPECT_EQ(load_file(folder.write("empty", {})), Bytes{});
  EXPECT_EQ(load_file(folder.write("some", {7, 8})), (Bytes{7, 8}));
}

TEST(LoadFile, RefusesAFileBeyondTheLimitBeforeItReads) {
  const TemporaryFolder folder;
  const std::string path = folder.write("large", {});
  std::filesystem::resize_file(path, kMaxFileBytes + 1);  // sparse
  EXPECT_TRUE(says(refusal([&] { load_file(path); }), "2147483649 bytes; files of data have at most 2147483648"));
}

}  // namespace
}  // namespace paceline
