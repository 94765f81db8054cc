// What the tests of this module share: files in a folder that goes away, bytes in IDX and gzip, refusals as text.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/data/dataset.hpp"

namespace paceline {

using Bytes = std::vector<std::uint8_t>;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "paceline-data-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw system_error("cannot make a folder for a test", errno);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const Bytes& bytes) const {
    std::ofstream stream(path_ / name, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return (path_ / name).string();
  }
  void remove(const std::string& name) const { std::filesystem::remove(path_ / name); }

 private:
  std::filesystem::path path_;
};

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, bytes.size()));
  Bytes input = bytes;
  stream.next_in = input.data();
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes big_endian(std::initializer_list<std::uint32_t> numbers) {
  Bytes bytes;
  for (const std::uint32_t number : numbers) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(number >> shift));
  }
  return bytes;
}

// `count` images of 2x3 whose pixels count up; labels that go round from 0 to 9.
inline Bytes idx_images(std::uint32_t count) {
  Bytes bytes = big_endian({0x803, count, 2, 3});
  for (std::uint32_t i = 0; i < count * 6; ++i) bytes.push_back(static_cast<std::uint8_t>(i));
  return bytes;
}
inline Bytes idx_labels(std::uint32_t count) {
  Bytes bytes = big_endian({0x801, count});
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 10));
  return bytes;
}

// `size` examples of 1x2x3 in 5 classes; pixel j of example i is 7i + j, modulo 256.
inline Dataset small_data(std::size_t size) {
  Bytes pixels;
  Bytes labels;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < 6; ++j) pixels.push_back(static_cast<std::uint8_t>(7 * i + j));
    labels.push_back(static_cast<std::uint8_t>(i % 5));
  }
  return Dataset({.channels = 1, .height = 2, .width = 3}, 5, std::move(pixels), std::move(labels), "small");
}

// The sentence with which `call` is refused.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "accepted";
}

// EXPECT_TRUE(says(sentence, "part of it"))
inline testing::AssertionResult says(const std::string& sentence, const std::string& part) {
  if (sentence.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << sentence << "' does not say '" << part << "'";
}

}  // namespace paceline
