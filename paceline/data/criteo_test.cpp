#include "paceline/data/criteo.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "paceline/data/batch.hpp"
#include "paceline/data/data_test_support.hpp"
#include "paceline/data/open.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

Bytes bytes_of(const std::string& text) { return Bytes(text.begin(), text.end()); }
Dataset parse(const std::string& text, int hash_bits = 0) {
  return parse_criteo(bytes_of(text), "clicks.txt", hash_bits);
}
std::string refusal_of(const std::string& text) {
  return refusal([&] { parse(text); });
}

// A label, integers 0 … 12 and hashes aa01 … aa1a in hexadecimal; `change` is done to the cells.
template <class Change>
std::string row_with(Change&& change, char separator = '\t') {
  std::vector<std::string> cells = {"1"};
  for (int i = 0; i < kCriteoIntegers; ++i) cells.push_back(std::to_string(i));
  for (int i = 1; i <= kCriteoCategories; ++i) cells.push_back(fmt::format("aa{:02x}", i));
  change(cells);
  std::string line = cells.front();
  for (std::size_t i = 1; i < cells.size(); ++i) line += separator + cells[i];
  return line + "\n";
}
std::string row(char separator = '\t') {
  return row_with([](auto&) {}, separator);
}

TEST(Criteo, ARowIsItsLabelItsLogarithmsAndItsKeys) {
  const Dataset data = parse(row() + row_with([](auto& cells) { cells[0] = "0"; }));
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(to_string(data.form()), "rows of 13 numbers and 26 keys in 2 classes");
  EXPECT_EQ(data.label(0), 1);
  EXPECT_EQ(data.label(1), 0);
  EXPECT_FLOAT_EQ(data.values(0)[7], std::log(8.0F));
  EXPECT_EQ(data.keys(0)[25], criteo_key(26, 0xaa1a));
}

TEST(Criteo, IntegersMayBeMissingOrNegative) {
  const Dataset data = parse(row_with([](auto& cells) {
    cells[1] = "";
    cells[2] = "-3";
  }));
  EXPECT_EQ(data.values(0)[0], 0);
  EXPECT_FLOAT_EQ(data.values(0)[1], -std::log(4.0F));
}

TEST(Criteo, ACategoryHasTheKeyOfItsColumnAndHash) {
  const Dataset data = parse(row_with([](auto& cells) {
    cells[14] = cells[15] = "deadbeef";
    cells[16] = cells[17] = "";
  }));
  const auto keys = data.keys(0);
  EXPECT_EQ(std::set<std::uint64_t>(keys.begin(), keys.end()).size(), keys.size());
  EXPECT_EQ(keys[0], criteo_key(1, 0xdeadbeef));
  EXPECT_EQ(keys[2], criteo_key(3, std::nullopt));
  EXPECT_NE(criteo_key(3, std::nullopt), criteo_key(3, 0));
}

TEST(Criteo, KeysOfFewBitsAreSpreadOverAllOfThem) {
  std::set<std::uint64_t> keys;
  for (std::uint32_t hash = 0; hash < 4096; ++hash) keys.insert(criteo_key(1, hash, 10));
  EXPECT_LE(*keys.rbegin(), 1023U);
  EXPECT_GT(keys.size(), 950U);  // of 1024, of which 4096 draws leave 19 out on average
  EXPECT_EQ(parse(row(), 10).keys(0)[4], criteo_key(5, 0xaa05, 10));
}

TEST(Criteo, CommasHeadersGzipAndLineEndsAreUnderstood) {
  const std::uint64_t expected = fingerprint_of(parse(row()), parse(row()));
  std::string header = "C26,Id,LABEL";
  for (int i = 1; i <= kCriteoIntegers; ++i) header += fmt::format(",i{}", i);
  for (int i = 1; i < kCriteoCategories; ++i) header += fmt::format(",C{}", i);
  const std::string turned = row_with(
      [](auto& cells) {
        const std::string last = cells.back();
        cells.pop_back();
        cells.insert(cells.begin(), {last, "10000007"});
      },
      ',');
  const std::string windows = "\r\n" + row().substr(0, row().size() - 1) + "\r\n\n";
  for (const std::string& text : {row(','), header + "\n" + turned, windows, "\xEF\xBB\xBF" + row()})
    EXPECT_EQ(fingerprint_of(parse(text), parse(text)), expected) << text;
  const Dataset packed = parse_criteo(gzip(bytes_of(row())), "clicks.gz");
  EXPECT_EQ(fingerprint_of(packed, packed), expected);
}

TEST(Criteo, WhatIsWrongIsSaidWithLineAndColumn) {
  const auto with = [](std::size_t cell, const std::string& text) {
    return row() + row_with([&](auto& cells) { cells[cell] = text; });
  };
  EXPECT_EQ(refusal_of(with(0, "2")), "clicks.txt, line 2, column 1 (Label): '2' is neither 0 nor 1");
  EXPECT_EQ(refusal_of(with(0, "")), "clicks.txt, line 2, column 1 (Label): '' is neither 0 nor 1");
  EXPECT_EQ(refusal_of(with(3, "1.5")), "clicks.txt, line 2, column 4 (I3): '1.5' is no integer");
  EXPECT_EQ(refusal_of(with(3, "99999999999999999999")),
            "clicks.txt, line 2, column 4 (I3): 99999999999999999999 does not fit 64 bits");
  EXPECT_EQ(refusal_of(with(15, "68fd1e6x")),
            "clicks.txt, line 2, column 16 (C2): '68fd1e6x' is no hash of up to 8 hexadecimal digits");
  EXPECT_TRUE(says(refusal_of(with(15, "123456789")), "(C2): '123456789' is no hash"));
  EXPECT_EQ(refusal_of(row() + row(',')), "clicks.txt, line 2: 1 column between tabs, but there must be 40");
  EXPECT_EQ(refusal_of("0,1,2\n"), "clicks.txt, line 1: 3 columns between commas, but there must be 40");
  EXPECT_EQ(refusal_of("Label,I1,I1\n"), "clicks.txt, line 1: the header names I1 twice");
  EXPECT_EQ(refusal_of("Label,I1\n"), "clicks.txt, line 1: the header has no column I2");
  EXPECT_EQ(refusal_of(""), "clicks.txt has no rows");
}

TEST(Criteo, TheTestPartIsAShareThatIsAlwaysTheSameOrAFile) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50; ++i) text += row_with([&](auto& cells) { cells[1] = std::to_string(i); });
  const std::string file = folder.write("a.txt", bytes_of(text));
  const std::string other = folder.write("b.txt", bytes_of(row()));
  const DataSplit split = open_data("criteo:" + file + ",test=10%");
  EXPECT_EQ(split.train.size(), 45U);
  EXPECT_EQ(split.test.size(), 5U);
  EXPECT_EQ(split.fingerprint, open_data("criteo:" + file + ",test=10%").fingerprint);
  EXPECT_NE(split.fingerprint, open_data("criteo:" + file + ",test=10%,hash-bits=16").fingerprint);
  EXPECT_EQ(open_data("criteo:" + file + ",test=" + other).test.size(), 1U);
  EXPECT_TRUE(says(refusal([] { parse_criteo_options("a.txt,hash-bits=64"); }), "a number from 1 to 63"));
  EXPECT_TRUE(says(refusal([] { parse_criteo_options("a.txt,test=0%"); }), "a share above 0% and below 100%"));
  EXPECT_TRUE(says(refusal([] { open_data("criteo"); }), "criteo needs its file"));
}

TEST(Criteo, ABatchCarriesKeysAndThenNumbersAsBits) {
  const Dataset data = parse(row() + row_with([](auto& cells) { cells[3] = "500"; }));
  Batch batch;
  const std::vector<std::uint32_t> second = {1};
  fill(batch, data, {}, second);
  ASSERT_EQ(batch.tokens.size(), 39U);
  EXPECT_EQ(static_cast<std::uint64_t>(batch.tokens[3]), data.keys(1)[3]);
  EXPECT_EQ(std::bit_cast<double>(batch.tokens[26 + 2]), static_cast<double>(data.values(1)[2]));
  EXPECT_EQ(batch.labels, std::vector<std::int64_t>{1});
}

TEST(Criteo, RealClicksAreReadWhereTheyAre) {
  const std::string folder = PACELINE_SHARED_DATA "/criteo";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "there is no " << folder;
  const DataSplit clicks =
      open_data("criteo:" + folder + "/wideresdnn_train.csv,test=" + folder + "/wideresdnn_dev.csv");
  EXPECT_EQ(clicks.train.size(), 7200U);
  EXPECT_EQ(clicks.test.size(), 409U);
  const DataSplit named = open_data("criteo:" + folder + "/train.tiny.csv");
  EXPECT_EQ(named.train.size() + named.test.size(), 1999U);
}

}  // namespace
}  // namespace paceline
