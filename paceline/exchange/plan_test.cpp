#include "paceline/exchange/plan.hpp"

#include <gtest/gtest.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

std::string complaint(std::string_view text) {
  try {
    check(parse_plan(text));
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

TEST(Plan, EveryAllreduceIsAnAlgorithm) {
  for (const std::string& word : plan_words("where")) {
    const Plan plan = parse_plan("where=" + word);
    if (plan.route() != Where::allreduce) continue;
    const Algorithm algorithm = plan.algorithm();
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
  EXPECT_EQ(complaint("when=delaid:1"),
            "'delaid:1' is not known as an answer to when; there are: bsp, delayed:1, local:1, local:end, async, "
            "ssp:0, essp:0, softsync:1, auto");
}

TEST(Plan, EveryWordThatHelpShowsIsOne) {
  for (const std::string key : {"split", "when", "where", "what"}) {
    for (const std::string& word : plan_words(key)) EXPECT_NO_THROW(parse_plan(key + "=" + word)) << word;
  }
}

TEST(Plan, EveryPairOfWhenAndWhereIsPossibleOrRefusedWithOneThatIs) {
  for (const std::string& when : plan_words("when")) {
    for (const std::string& where : plan_words("where")) {
      const std::string sentence = complaint("when=" + when + " where=" + where);
      if (sentence.empty()) continue;
      EXPECT_NE(sentence.find("when=" + when), std::string::npos) << sentence;
      const std::size_t use = sentence.find("; use ");
      ASSERT_NE(use, std::string::npos) << sentence;
      EXPECT_EQ(complaint(sentence.substr(use + 6)), "") << sentence;
    }
  }
  EXPECT_EQ(complaint("where=ring when=async"),
            "when=async and where=ring exclude each other: an allreduce waits for all workers, async for none; use "
            "where=gossip when=async");
}

TEST(Plan, SaysWhatMeetsAndWhoWaitsForWhom) {
  struct Row {
    std::string text;
    bool parameters;
    Coupling coupling;
  };
  for (const Row& row :
       {Row{"", false, Coupling::all}, Row{"when=delayed:2", false, Coupling::all},
        Row{"when=local:8", true, Coupling::all}, Row{"when=local:end where=ring", true, Coupling::none},
        Row{"where=gossip", true, Coupling::neighbours}, Row{"where=gossip when=async", true, Coupling::none},
        Row{"where=hogwild", true, Coupling::none}}) {
    const Plan plan = parse_plan(row.text);
    EXPECT_EQ(complaint(row.text), "");
    EXPECT_EQ(plan.parameters_meet(), row.parameters) << row.text;
    EXPECT_EQ(plan.coupling(), row.coupling) << row.text;
  }
}

TEST(Plan, LocalStepsAreANumberOrUntilTheEnd) {
  EXPECT_EQ(parse_plan("").local_steps(), 0);
  EXPECT_EQ(parse_plan("when=local:8").local_steps(), 8);
  EXPECT_EQ(parse_plan("when=local:end").local_steps(), Plan::kUntilTheEnd);
  EXPECT_EQ(complaint("when=local:0"), "'local:0' needs a number of steps from 1 to 1000000, as in local:1");
}

TEST(Plan, GossipHasAGraph) {
  EXPECT_EQ(parse_plan("where=gossip"), parse_plan("where=gossip:exponential"));
  EXPECT_EQ(parse_plan("where=gossip").text(), "split=data when=bsp where=gossip:exponential what=dense");
  EXPECT_EQ(parse_plan("where=gossip:ring").graph(), GossipGraph::ring);
  EXPECT_EQ(parse_plan("where=gossip:random").graph(), GossipGraph::random);
  EXPECT_NE(complaint("where=gossip:star"), "");
}

TEST(Plan, HogwildIsAsynchronousUnlessSomethingElseWasSaid) {
  EXPECT_EQ(parse_plan("where=hogwild").text(), "split=data when=async where=hogwild what=dense");
  EXPECT_TRUE(parse_plan("where=hogwild:locked").locked());
  EXPECT_EQ(complaint("where=hogwild"), "");
  EXPECT_NE(complaint("when=bsp where=hogwild").find("use where=hogwild when=async"), std::string::npos);
  EXPECT_NE(complaint("where=hogwild when=bsp"), "");
}

}  // namespace
}  // namespace paceline
