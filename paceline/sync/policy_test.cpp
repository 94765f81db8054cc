#include "paceline/sync/policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_policy(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(PolicyText, EveryWordIsReadAndWrittenAlike) {
  for (const std::string& word : policy_words()) EXPECT_EQ(parse_policy(word).text(), word);
  for (const char* word : {"ssp:0", "ssp:1000000", "essp:0", "softsync:1", "local:1", "delayed:16"}) {
    EXPECT_EQ(parse_policy(word).text(), word);
  }
  EXPECT_EQ(parse_policy("ssp:3"), (Policy{Policy::Kind::ssp, 3}));
  EXPECT_EQ(parse_policy("bsp"), Policy());
}

TEST(PolicyText, AnUnknownWordIsRefusedWithThoseThereAre) {
  const std::string words = "bsp, ssp:3, essp:3, async, softsync:4, local:8, delayed:1";
  for (const char* text : {"", "sspp", "SSP:3", "bsp:0", "async:1", " bsp", ":3"}) {
    EXPECT_EQ(refusal(text), "'" + std::string(text) + "' does not say when updates meet; there are: " + words);
  }
}

TEST(PolicyText, ANumberThatIsMissingOrOutOfRangeIsRefusedWithTheRange) {
  EXPECT_EQ(refusal("ssp"), "'ssp' needs a whole number from 0 to 1000000, as in ssp:3");
  EXPECT_EQ(refusal("delayed:17"), "'delayed:17' needs a whole number from 1 to 16, as in delayed:1");
  for (const char* text : {"ssp:", "ssp:-1", "ssp:+1", "ssp:3.5", "ssp:3 ", "ssp:1000001", "ssp:99999999999", "essp:x",
                           "softsync:0", "local:0", "delayed:0", "delayed"}) {
    EXPECT_NE(refusal(text).find("needs a whole number"), std::string::npos) << text;
  }
}

struct Row {
  const char* policy;
  std::int64_t clock;
  std::int64_t must;
};

TEST(PolicyClocks, AReadMustContainWhatThePolicyPromises) {
  const Row rows[] = {
      {"bsp", 0, 0},       {"bsp", 7, 7},       {"ssp:0", 7, 7},   {"ssp:3", 2, 0},   {"ssp:3", 3, 0},
      {"ssp:3", 4, 1},     {"ssp:3", 10, 7},    {"essp:3", 10, 7}, {"async", 10, 0},  {"softsync:4", 10, 0},
      {"local:4", 3, 0},   {"local:4", 4, 4},   {"local:4", 7, 4}, {"local:4", 8, 8}, {"local:1", 5, 5},
      {"delayed:2", 1, 0}, {"delayed:2", 5, 3},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(must_contain(parse_policy(row.policy), row.clock), row.must) << row.policy << " at " << row.clock;
  }
}

TEST(PolicyClocks, AWorkerBeginsAsSoonAsTheBoundAllowsAndNotBefore) {
  const Policy ssp = parse_policy("ssp:3");
  EXPECT_TRUE(may_begin(ssp, 3, 0));
  EXPECT_FALSE(may_begin(ssp, 4, 0));
  EXPECT_TRUE(may_begin(ssp, 4, 1));
  EXPECT_FALSE(may_begin(parse_policy("bsp"), 1, 0));
  EXPECT_TRUE(may_begin(parse_policy("bsp"), 1, 1));
  EXPECT_TRUE(may_begin(parse_policy("async"), 1'000'000'000'000, 0));
  EXPECT_TRUE(may_begin(parse_policy("softsync:1"), 1'000'000'000'000, 0));
  EXPECT_TRUE(may_begin(parse_policy("local:4"), 7, 4));
  EXPECT_FALSE(may_begin(parse_policy("local:4"), 8, 7));
  EXPECT_FALSE(may_begin(parse_policy("delayed:1"), 2, 0));
}

TEST(PolicyClocks, BspIsSspWithoutSlackAndAsyncIsSspWithoutBound) {
  for (std::int64_t clock = 0; clock < 50; ++clock) {
    for (std::int64_t slowest = 0; slowest <= clock; ++slowest) {
      EXPECT_EQ(may_begin(parse_policy("bsp"), clock, slowest), may_begin(parse_policy("ssp:0"), clock, slowest));
      EXPECT_EQ(may_begin(parse_policy("bsp"), clock, slowest), may_begin(parse_policy("local:1"), clock, slowest));
      EXPECT_EQ(may_begin(parse_policy("async"), clock, slowest), may_begin(parse_policy("ssp:50"), clock, slowest));
    }
  }
}

TEST(PolicyClocks, TheHindmostWorkerMayAlwaysBegin) {
  for (const std::string& word : policy_words()) {
    for (std::int64_t clock = 0; clock < 50; ++clock) EXPECT_TRUE(may_begin(parse_policy(word), clock, clock)) << word;
  }
}

TEST(PolicyClocks, WhatAReadMustContainNeverFalls) {
  for (const std::string& word : policy_words()) {
    std::int64_t before = 0;
    for (std::int64_t clock = 0; clock < 50; ++clock) {
      const std::int64_t must = must_contain(parse_policy(word), clock);
      EXPECT_GE(must, before) << word;
      EXPECT_LE(must, clock) << word;
      EXPECT_GT(must, kNoClock) << word;
      before = must;
    }
  }
}

TEST(PolicyServer, UpdatesAreAppliedAsThePolicySays) {
  EXPECT_EQ(apply_rule(parse_policy("bsp")), Apply::when_all_have_clocked);
  EXPECT_EQ(apply_rule(parse_policy("softsync:4")), Apply::after_so_many);
  for (const char* word : {"ssp:0", "essp:3", "async", "local:8", "delayed:1"}) {
    EXPECT_EQ(apply_rule(parse_policy(word)), Apply::at_once) << word;
  }
}

TEST(PolicyServer, OnlyEsspDeliversUnasked) {
  for (const std::string& word : policy_words()) {
    EXPECT_EQ(delivers_eagerly(parse_policy(word)), word == "essp:3") << word;
  }
}

TEST(PolicyServer, OwnWritesAreSeenUnlessTheyWaitForOthers) {
  for (const std::string& word : policy_words()) {
    EXPECT_EQ(reads_own_writes(parse_policy(word)), word != "softsync:4" && word != "delayed:1") << word;
  }
}

TEST(PolicyServer, LocalWorkersMeetEveryKStepsTheOthersAlways) {
  for (std::int64_t clock = 0; clock < 50; ++clock) {
    EXPECT_EQ(meets_at(parse_policy("local:8"), clock), clock % 8 == 0);
    EXPECT_TRUE(meets_at(parse_policy("local:1"), clock));
    EXPECT_TRUE(meets_at(parse_policy("ssp:3"), clock));
  }
}

TEST(PolicyServer, SoftsyncCountsAsManyUpdatesAsZhangSays) {
  EXPECT_EQ(softsync_count(30, 1), 30);
  EXPECT_EQ(softsync_count(30, 4), 7);
  EXPECT_EQ(softsync_count(30, 30), 1);
  EXPECT_EQ(softsync_count(30, 31), 1);
  EXPECT_EQ(softsync_count(1, 1), 1);
}

}  // namespace
}  // namespace paceline
