#include "paceline/data/text.hpp"

#include <gtest/gtest.h>

#include "paceline/data/batch.hpp"
#include "paceline/data/data_test_support.hpp"
#include "paceline/data/open.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

Bytes bytes_of(const std::string& text) { return Bytes(text.begin(), text.end()); }

DataSplit split_of(const std::string& text, int length, double test) {
  return parse_text(bytes_of(text), {.file = "a.txt", .length = length, .test = test});
}

// The characters that training sees, window by window, and the one after.
std::string spelled(const Dataset& data, const std::string& vocabulary) {
  std::string text;
  for (const std::uint8_t number : data.all_pixels()) text.push_back(vocabulary.at(number));
  return text;
}

TEST(Text, TheVocabularyIsTheBytesThatOccurInAscendingOrder) {
  const DataSplit split = split_of("hello\n\xffworld\n hello", 2, 0.3);
  EXPECT_EQ(split.vocabulary, "\n dehlorw\xff");
  EXPECT_EQ(split.train.classes(), 10);
  EXPECT_EQ(split.train.form().kind, Kind::text);
}

TEST(Text, TheLastPartIsTheTest) {
  const DataSplit split = split_of("abcdefghijklmnopqrst", 3, 0.25);
  EXPECT_EQ(spelled(split.train, split.vocabulary), "abcdefghijklmno");
  EXPECT_EQ(spelled(split.test, split.vocabulary), "pqrst");
  EXPECT_EQ(split.train.size(), 4U);
  EXPECT_EQ(split.test.size(), 1U);
}

TEST(Text, EveryCharacterIsFollowedByTheNext) {
  const DataSplit split = split_of("abcdefghij", 3, 0.4);
  Batch batch;
  const std::uint32_t both[] = {1, 0};
  EXPECT_EQ(split.train.size(), 1U);
  fill(batch, split.train, {}, std::span(both).last(1));
  EXPECT_EQ(batch.tokens, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Text, MayBeCompressed) {
  const TemporaryFolder folder;
  const std::string text = "to be, or not to be, that is the question";
  const std::string plain = folder.write("a.txt", bytes_of(text));
  const std::string packed = folder.write("b", gzip(bytes_of(text)));
  const DataSplit split = open_data("text:" + packed + ",length=4,test=20%");
  EXPECT_EQ(split.fingerprint, open_data("text:" + plain + ",test=0.2,length=4").fingerprint);
  EXPECT_EQ(split.train.shape().width, 4);
}

TEST(Text, WhatCannotBeIsRefused) {
  EXPECT_EQ(refusal([] { open_data("text"); }), "text needs its file: text:FILE");
  EXPECT_EQ(refusal([] { open_data("text:,length=3"); }), "text needs its file: text:FILE");
  EXPECT_TRUE(says(refusal([] { open_data("text:/no/such"); }), "cannot read /no/such"));
  EXPECT_EQ(refusal([] { open_data("text:a,lenght=3"); }),
            "in text, 'lenght=3' is not known: after the file there may be length=, test=");
  EXPECT_TRUE(says(refusal([] { open_data("text:a,length=3,length=4"); }), "a second time"));
  for (const std::string length : {"0", "-1", "x", "65537", "3x", ""})
    EXPECT_TRUE(says(refusal([&] { open_data("text:a,length=" + length); }), "needs a number from 1 to 65536"));
  for (const std::string share : {"0", "1", "100%", "x", "", "nan", "-5%"})
    EXPECT_TRUE(says(refusal([&] { open_data("text:a,test=" + share); }), "needs a share above 0%")) << share;
  EXPECT_EQ(refusal([] { split_of("", 3, 0.1); }), "a.txt is empty");
  EXPECT_TRUE(says(refusal([] { split_of("abcdefgh", 3, 0.1); }), "the test part of a.txt has 1 characters"));
  EXPECT_TRUE(says(refusal([] { split_of("abcdefgh", 7, 0.5); }), "the training part of a.txt has 4 characters"));
}

TEST(Text, AFilesNameMayHaveCommasAndColons) {
  const TemporaryFolder folder;
  folder.write("a,b=c:d", bytes_of("abcdefghijklmnopqrstuvwxyz"));
  EXPECT_EQ(open_data("text:" + folder.path() + "/a,b=c:d,length=2").train.shape().width, 2);
  EXPECT_EQ(parse_text_options("a:b,test=50%").file, "a:b");
}

TEST(Text, HoldsOutItsLastWindows) {
  const DataSplit split = split_of("abcdefghijklmnopqrstuvwxyz", 2, 0.2);  // a to u: ten windows of two, and u
  const auto [rest, held] = hold_out(split.train, 0.3, 7);
  EXPECT_EQ(spelled(rest, split.vocabulary), "abcdefghijklmno");
  EXPECT_EQ(spelled(held, split.vocabulary), "opqrstu");
  EXPECT_EQ(rest.size(), 7U);
  EXPECT_EQ(held.size(), 3U);
  EXPECT_EQ(rest.form(), split.train.form());
  EXPECT_TRUE(says(refusal([&] { hold_out(split.train, 0.01, 7); }), "would leave one part empty"));
}

TEST(Text, ShakespeareIsReadWhereHeIs) {
  const std::string file = PACELINE_SHARED_DATA "/tinyshakespeare/input.txt";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "there is no " << file;
  const DataSplit split = open_data("text:" + file);
  EXPECT_EQ(split.vocabulary.size(), 65U);
  EXPECT_EQ(split.train.all_pixels().size() + split.test.all_pixels().size(), 1'115'394U);
  EXPECT_EQ(split.test.all_pixels().size(), 111'539U);
  EXPECT_EQ(spelled(split.train, split.vocabulary).substr(0, 14), "First Citizen:");
}

}  // namespace
}  // namespace paceline
