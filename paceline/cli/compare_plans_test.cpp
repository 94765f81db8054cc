#include "paceline/cli/compare_plans.hpp"

#include <gtest/gtest.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

using Words = std::vector<std::string>;

std::string refusal_of(const std::string& text, const Words& common = {"--data", "digits", "--model", "mlp:16"}) {
  try {
    std::vector<PlanLine> plans = parse_plans(text);
    check_plans(plans, common);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "no refusal";
}

TEST(ComparePlans, AreNamesAndOptions) {
  const auto plans =
      parse_plans("# by hand\n\nbsp: --where allreduce\n  ring_2:--where  ring --data 'csv:a b.csv'\r\nplain:\n");
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_EQ(plans[0].line, 3);
  EXPECT_EQ(plans[0].words, (Words{"--where", "allreduce"}));
  EXPECT_EQ(plans[1].name, "ring_2");
  EXPECT_EQ(plans[1].options, "--where  ring --data 'csv:a b.csv'");
  EXPECT_EQ(plans[1].words, (Words{"--where", "ring", "--data", "csv:a b.csv"}));
  EXPECT_TRUE(plans[2].words.empty());
}

TEST(ComparePlans, WrongLinesAreNamed) {
  EXPECT_TRUE(refusal_of("a: --lr 1\n--where ring\n").starts_with("line 2 of the plans: '--where ring' has no name"));
  EXPECT_TRUE(refusal_of("--data synthetic:1x4x4\n").starts_with("line 1 of the plans"));
  EXPECT_EQ(refusal_of("a: --lr 1\na: --lr 2\n"), "line 2 of the plans: there is a plan 'a' already");
  EXPECT_TRUE(refusal_of("../a: --lr 1\n").starts_with("line 1 of the plans: '../a' cannot be a plan's name"));
  EXPECT_TRUE(refusal_of(": --lr 1\n").starts_with("line 1 of the plans: there is no name"));
  EXPECT_EQ(refusal_of("a: --data \"x\n"), "line 1 of the plans: the quote \" does not end");
  EXPECT_TRUE(refusal_of("# nothing\n").starts_with("the file of plans has none"));
}

TEST(ComparePlans, WhatTrainWouldRefuseIsRefusedWithItsLine) {
  EXPECT_TRUE(refusal_of("good:\nbad: --where moon\n").starts_with("line 2 of the plans, 'bad': "));
  EXPECT_TRUE(refusal_of("bad: --no-such-flag\n").starts_with("line 1 of the plans, 'bad': "));
  EXPECT_TRUE(refusal_of("bad: --lr fast\n").starts_with("line 1 of the plans, 'bad': "));
  EXPECT_TRUE(refusal_of("bad: --batch 100000\n").find("1497") != std::string::npos);
  EXPECT_EQ(refusal_of("bad: --out here\n"), "line 1 of the plans, 'bad': --out is set by compare itself");
  EXPECT_EQ(refusal_of("good:\n", {"--seed", "4"}), "the options after --: --seed is set by compare itself");
}

TEST(ComparePlans, TheirOwnOptionsTakeThePlaceOfCommonOnes) {
  auto plans = parse_plans("a: --batch 32 --sync bsp\nb:\n");
  check_plans(plans, {"--batch", "16", "--data", "digits", "--model", "softmax", "-n", "2"});
  EXPECT_EQ(plans[0].merged, (Words{"--batch=32", "--data=digits", "--model=softmax", "--when=bsp", "--workers=2"}));
  EXPECT_EQ(plans[1].merged, (Words{"--batch=16", "--data=digits", "--model=softmax", "--workers=2"}));
}

}  // namespace
}  // namespace paceline
