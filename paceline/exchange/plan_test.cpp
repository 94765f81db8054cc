#include "paceline/exchange/plan.hpp"

#include <gtest/gtest.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

std::string complaint(std::string_view text) {
  try {
    parse_plan(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(Plan, WhatIsNotSaidHasItsDefault) {
  EXPECT_EQ(parse_plan(""), Plan{});
  EXPECT_EQ(parse_plan("where=ring").text(), "split=data when=bsp where=ring what=dense");
  EXPECT_EQ(parse_plan("").algorithm(), Algorithm::automatic);
}

TEST(Plan, KeysHaveAliasesAndPairsTwoSeparators) {
  EXPECT_EQ(parse_plan("comm=ring,sync=bsp  compress=dense"), parse_plan("where=ring when=bsp what=dense"));
}

TEST(Plan, EveryRouteIsAnAlgorithm) {
  for (const std::string& word : plan_words("where")) {
    const Algorithm algorithm = parse_plan("where=" + word).algorithm();
    EXPECT_EQ(word == "allreduce", algorithm == Algorithm::automatic) << word;
    if (word != "allreduce") {
      EXPECT_EQ(word, name(algorithm));
    }
  }
}

TEST(Plan, AnUnknownWordIsRefusedWithThoseThereAre) {
  EXPECT_EQ(complaint("what=topk:1%"), "'topk:1%' is not known as an answer to what; there is: dense");
  EXPECT_NE(complaint("where=rign").find("ring"), std::string::npos);
  EXPECT_EQ(complaint("speed=high"), "a plan has no key 'speed'; it has split, when, where and what");
  EXPECT_EQ(complaint("ring"), "'ring' in a plan is not of the form key=word, as in where=ring");
}

TEST(Plan, AWordMayHaveANumber) {
  EXPECT_EQ(parse_plan("").delay(), 0);
  EXPECT_EQ(parse_plan("when=delayed:1").delay(), 1);
  EXPECT_EQ(parse_plan("sync=delayed:16").delay(), 16);
  EXPECT_EQ(parse_plan("when=delayed:07"), parse_plan("when=delayed:7"));
  EXPECT_EQ(parse_plan("when=delayed:3 where=ring").text(), "split=data when=delayed:3 where=ring what=dense");
  EXPECT_EQ(parse_plan(parse_plan("when=delayed:3").text()), parse_plan("when=delayed:3"));
}

TEST(Plan, ANumberOutOfRangeIsRefusedWithTheRange) {
  for (const std::string word : {"delayed", "delayed:", "delayed:0", "delayed:17", "delayed:-1", "delayed:two",
                                 "delayed:1.5", "delayed:1:2", "delayed:99999999999"})
    EXPECT_EQ(complaint("when=" + word), "'" + word + "' needs a number of steps from 1 to 16, as in delayed:1");
  EXPECT_EQ(complaint("when=delaid:1"), "'delaid:1' is not known as an answer to when; there are: bsp, delayed:1");
}

TEST(Plan, EveryWordThatHelpShowsIsOne) {
  for (const std::string key : {"split", "when", "where", "what"}) {
    for (const std::string& word : plan_words(key)) EXPECT_EQ(complaint(key + "=" + word), "") << word;
  }
}

}  // namespace
}  // namespace paceline
