#include "paceline/record/safetensors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  Safetensors() {
    std::string pattern = testing::TempDir() + "paceline_safetensors_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/a.safetensors";
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  // A file of this header and this many bytes of data; `length` is what it says about its header.
  void write_raw(const std::string& header, std::size_t data_bytes, std::uint64_t length) {
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << std::string(data_bytes, 'x');
  }
  void write_raw(const std::string& header, std::size_t data_bytes) { write_raw(header, data_bytes, header.size()); }

  // The sentence with which the file is refused, "" if it is not.
  std::string refusal() {
    try {
      SafetensorsFile file(path_);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      return error.what();
    }
  }
  void expect_refused(const std::string& header, std::size_t data_bytes, const std::string& reason) {
    write_raw(header, data_bytes);
    const std::string sentence = refusal();
    EXPECT_NE(sentence.find(reason), std::string::npos) << header.substr(0, 200) << " -> \"" << sentence << '"';
  }

  std::string folder_;
  std::string path_;
};

std::string numbers(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 37 + bytes);
  return text;
}

NamedArray array(std::string name, std::string dtype, std::vector<std::int64_t> shape, const std::string& bytes) {
  return {std::move(name), std::move(dtype), std::move(shape), std::as_bytes(std::span(bytes))};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"U8","shape":{},"data_offsets":{}}})", name, shape, offsets);
}

TEST_F(Safetensors, EveryDTypeAndShapeComesBack) {
  const std::pair<const char*, std::size_t> dtypes[] = {{"U8", 1},   {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                                                        {"BOOL", 1}, {"I64", 8}, {"I32", 4}, {"I8", 1}};
  const std::pair<std::vector<std::int64_t>, std::size_t> shapes[] = {
      {{}, 1}, {{0}, 0}, {{3}, 3}, {{2, 3, 1}, 6}, {{4, 0, 2}, 0}};
  std::vector<std::string> bytes;
  for (const auto& [dtype, size] : dtypes) {
    for (const auto& [shape, count] : shapes) bytes.push_back(numbers(size * count));
  }
  std::vector<NamedArray> arrays;
  for (const auto& [dtype, size] : dtypes) {
    for (const auto& shape : shapes) {
      const std::size_t i = arrays.size();
      arrays.push_back(array(fmt::format("{}. \"ü\n\"", 99 - i), dtype, shape.first, bytes[i]));
    }
  }
  const std::map<std::string, std::string> metadata = {{"a", ""}, {"", "b"}, {"c", "{\"checksum\":\"\n"}};
  write_safetensors(path_, arrays, metadata);

  SafetensorsFile first(path_);
  const SafetensorsFile file = std::move(first);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.arrays().size(), arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const NamedArray& got = file.arrays()[i];
    EXPECT_EQ(got.name, arrays[i].name);
    EXPECT_EQ(got.dtype, arrays[i].dtype);
    EXPECT_EQ(got.shape, arrays[i].shape);
    EXPECT_EQ(text_of(got.bytes), bytes[i]);
    EXPECT_EQ(file.find(arrays[i].name), &got);
  }
  EXPECT_EQ(file.find("nobody"), nullptr);
}

TEST_F(Safetensors, AFileWithoutArraysIsGood) {
  write_safetensors(path_, {}, {});
  const SafetensorsFile file(path_);
  EXPECT_TRUE(file.arrays().empty());
  EXPECT_TRUE(file.metadata().empty());
}

// What Hugging Face's reader wants, read without ours.
TEST_F(Safetensors, TheFileIsWhatTheFormatSays) {
  const std::string weight = numbers(24), bias = numbers(6);
  const NamedArray arrays[] = {array("weight", "F32", {2, 3}, weight), array("bias", "F16", {3}, bias)};
  write_safetensors(path_, arrays, {{"format", "pt"}});

  const std::string all = read_file(path_);
  std::uint64_t length = 0;
  std::memcpy(&length, all.data(), sizeof(length));
  EXPECT_EQ((8 + length) % 8, 0u);
  const std::string header = all.substr(8, length);
  EXPECT_EQ(header.front(), '{');
  EXPECT_EQ(header.find_last_not_of(' '), header.rfind('}'));
  EXPECT_EQ(nlohmann::json::parse(header), nlohmann::json::parse(R"({"__metadata__": {"format": "pt"},
                "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                "bias": {"dtype": "F16", "shape": [3], "data_offsets": [24, 30]}})"));
  EXPECT_EQ(all.substr(8 + length), weight + bias);
}

TEST_F(Safetensors, AFileOfAnotherWriterIsRead) {
  write_raw("{ \"b\": {\"data_offsets\": [2, 6], \"shape\": [2, 2], \"dtype\": \"U8\"},\n" +
                entry("a", "[2]", "[0,2]") + "}   ",
            6);
  const SafetensorsFile file(path_);
  ASSERT_EQ(file.arrays().size(), 2u);
  EXPECT_EQ(file.arrays()[0].name, "a");
  EXPECT_EQ(file.find("b")->bytes.size(), 4u);
}

TEST_F(Safetensors, WhatCannotBeWrittenIsRefusedAndLeavesNoFile) {
  const std::string eight = numbers(8);
  const std::int64_t huge = std::int64_t{1} << 62;
  const std::vector<std::vector<NamedArray>> bad = {
      {array("a", "F32", {2}, eight), array("a", "F32", {2}, eight)},
      {array("a", "F32", {3}, eight)},
      {array("a", "F31", {2}, eight)},
      {array("a", "F32", {-2, -1}, eight)},
      {array("a", "F64", {huge, 8, 8}, eight)},
      {array("__metadata__", "F32", {2}, eight)},
      {array("\xff", "F32", {2}, eight)},
  };
  for (const auto& arrays : bad) {
    try {
      write_safetensors(path_, arrays, {});
      ADD_FAILURE() << arrays[0].name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid) << error.what();
    }
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Safetensors, ATruncatedFileIsRefusedAtEveryLength) {
  const std::string bytes = numbers(24);
  const NamedArray arrays[] = {array("a", "F32", {6}, bytes)};
  write_safetensors(path_, arrays, {{"key", "value"}});
  const std::string all = read_file(path_);
  for (std::size_t length = all.size(); length-- > 0;) {
    fs::resize_file(path_, length);
    EXPECT_NE(refusal().find("truncated"), std::string::npos) << length;
  }
  std::ofstream(path_, std::ios::binary) << all << 'x';
  EXPECT_NE(refusal().find("added"), std::string::npos);
}

TEST_F(Safetensors, ALieAboutTheHeadersLengthIsRefused) {
  const std::string header = "{" + entry("a", "[4]", "[0,4]") + "}";
  write_raw(header, 4);
  EXPECT_EQ(refusal(), "");
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, header.size() - 1, header.size() + 1, header.size() + 4, header.size() + 5,
        std::uint64_t{100'000'000}, ~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 63}) {
    write_raw(header, 4, length);
    EXPECT_NE(refusal(), "") << length;
  }
}

TEST_F(Safetensors, LiesAboutOffsetsAreRefused) {
  const auto file = [](const std::string& a, const std::string& b) {
    return "{" + entry("a", "[4]", a) + "," + entry("b", "[4]", b) + "}";
  };
  write_raw(file("[4,8]", "[0,4]"), 8);
  EXPECT_EQ(refusal(), "");
  expect_refused(file("[0,4]", "[0,4]"), 8, "overlaps");
  expect_refused(file("[0,4]", "[2,6]"), 8, "overlaps");
  expect_refused(file("[0,4]", "[5,9]"), 9, "gap");
  expect_refused(file("[1,5]", "[5,9]"), 9, "gap");
  expect_refused(file("[0,4]", "[4,8]"), 7, "truncated");
  expect_refused(file("[0,4]", "[4,8]"), 9, "added");
  expect_refused(file("[4,0]", "[4,8]"), 8, "bad offsets");
  expect_refused(file("[0,4]", "[4,8,12]"), 8, "bad offsets");
  expect_refused(file("[0,4]", "[]"), 8, "bad offsets");
  expect_refused(file("[0,4]", "[4,7]"), 7, "has 3 bytes");
  expect_refused(file("[0,4]", "[-4,0]"), 8, "whole numbers");
  expect_refused(file("[0,4]", "[18446744073709551612,18446744073709551615]"), 8, "whole numbers");
  expect_refused(file("[0,4]", "[0.0,4.0]"), 8, "whole numbers");
  expect_refused(file("[0,4]", "[\"4\",\"8\"]"), 8, "whole numbers");
  expect_refused(file("[0,4]", "[9223372036854775803,9223372036854775807]"), 8, "gap");
}

TEST_F(Safetensors, AShapeWhoseProductOverflowsIsRefused) {
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807,2]", "[4611686018427387904,4]",
                            "[0,9223372036854775807,9223372036854775807]", "[-1]", "[9223372036854775808]"}) {
    write_raw("{" + entry("a", shape, "[0,0]") + "}", 0);
    EXPECT_NE(refusal(), "") << shape;
  }
}

TEST_F(Safetensors, AHeaderOfTheWrongMakeIsRefused) {
  expect_refused("", 0, "not a JSON object");
  expect_refused("[]", 0, "not a JSON object");
  expect_refused(" {}", 0, "not a JSON object");
  expect_refused("{", 0, "not JSON");
  expect_refused("{}{}", 0, "not JSON");
  expect_refused(R"({"a":1e999})", 0, "not JSON");
  expect_refused("{\"a\xff\":{}}", 0, "not JSON");
  expect_refused(R"({"a":1})", 0, "\"a\" is not an object");
  expect_refused(R"({"a":[]})", 0, "\"a\" is not an object");
  expect_refused(R"({"a":{}})", 0, "has no shape");
  expect_refused(R"({"a":{"shape":[],"data_offsets":[0,1]}})", 1, "has no dtype");
  expect_refused(R"({"a":{"shape":[],"dtype":"F8","data_offsets":[0,1]}})", 1, "unknown dtype \"F8\"");
  expect_refused(R"({"a":{"shape":[{}],"dtype":"U8","data_offsets":[0,1]}})", 1, "too deeply");
  expect_refused("{" + entry("a", "[0]", "[0,0]") + "," + entry("a", "[0]", "[0,0]") + "}", 0, "\"a\" twice");
  expect_refused(R"({"a":{"shape":[],"shape":[0]}})", 0, "\"shape\" twice");
  expect_refused(R"({"__metadata__":{"a":1}})", 0, "is not a text");
  expect_refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0, "\"a\" twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "twice");
}

TEST_F(Safetensors, ADeepHeaderIsRefusedWithoutFollowingIt) {
  const std::size_t depth = 1'000'000;
  expect_refused("{\"a\":{\"shape\":" + std::string(depth, '['), 0, "too deeply");
  std::string objects;
  for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
  expect_refused(objects, 0, "too deeply");
}

TEST_F(Safetensors, ARefusalCannotPlayTricksOnATerminal) {
  expect_refused(R"({"\u001b[2J":1})", 0, R"("\u001b[2J" is not an object)");
}

TEST_F(Safetensors, AMissingFileAndAFolderAreSystemErrors) {
  for (const std::string& path : {path_, folder_}) {
    try {
      SafetensorsFile file(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::system);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace paceline
