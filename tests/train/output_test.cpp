// What a run says on its standard output, and when it stops.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

using nlohmann::json;

TEST(TrainOutput, JsonIsOneLinePerEpochAndALastOne) {
  const TrainRun run;
  const Ended ended = run.train(small_run({"--epochs", "3"}));
  EXPECT_EQ(ended.errors, "");
  const auto lines = json_lines(ended.output);
  ASSERT_EQ(lines.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    for (const char* key : {"epoch", "step", "seconds", "loss", "train_accuracy", "test_accuracy", "samples_per_s",
                            "wait_share", "bytes_sent"})
      EXPECT_TRUE(lines[i].contains(key) && lines[i][key].is_number()) << key << " in " << lines[i];
    EXPECT_EQ(lines[i]["epoch"], i + 1);
    EXPECT_EQ(lines[i]["step"], 12 * (i + 1));
    EXPECT_GT(lines[i]["bytes_sent"], i == 0 ? json(0) : lines[i - 1]["bytes_sent"]);
    EXPECT_FALSE(lines[i].contains("final"));
  }
  EXPECT_LT(lines[2]["loss"], lines[0]["loss"]);
  EXPECT_EQ(lines[3]["final"], true);
  EXPECT_EQ(lines[3]["stop_reason"], "all epochs done");
  EXPECT_EQ(lines[3]["step"], 36);
  EXPECT_EQ(lines[3]["test_accuracy"], lines[2]["test_accuracy"]);
  run.expect_nothing_left();
}

TEST(TrainOutput, QuietIsOneLine) {
  const TrainRun run;
  const Ended ended = Command({PACELINE_PROGRAM, "train", "--out", run.folder(), "--quiet", "--model", "softmax",
                               "--data", "digits", "--epochs", "2", "--workers", "2"})
                          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
  ASSERT_EQ(lines_of(ended.output).size(), 1u) << ended.output;
  EXPECT_TRUE(contains(ended.output, "test accuracy")) << ended.output;
}

TEST(TrainOutput, ToAFileItIsPlainLines) {
  const TrainRun run;
  const Ended ended = Command({PACELINE_PROGRAM, "train", "--out", run.folder(), "--model", "softmax", "--data",
                               "digits", "--epochs", "3", "--workers", "2"})
                          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.output.find_first_of("\r\x1b"), std::string::npos) << ended.output;
  const Words lines = lines_of(ended.output);
  ASSERT_EQ(lines.size(), 6u) << ended.output;  // what it does, three epochs, the result, where the report is
  EXPECT_TRUE(contains(lines[0], "650 parameters") && contains(lines[0], "2 workers")) << lines[0];
  EXPECT_TRUE(lines[3].starts_with("epoch 3/3")) << lines[3];
  EXPECT_TRUE(contains(lines[5], run.path("report.html"))) << lines[5];
}

class Workers : public testing::TestWithParam<int> {};

// Each epoch takes every example once: train_accuracy is a multiple of 1/1497.
TEST_P(Workers, AnyNumberTrains) {
  const int workers = GetParam();
  const TrainRun run;
  const Ended ended = run.train({"--model", "mlp:16", "--data", "digits", "--workers", std::to_string(workers),
                                 "--epochs", "4", "--batch", "16"});
  const auto lines = json_lines(ended.output);
  ASSERT_EQ(lines.size(), 5u);
  const int per_epoch = (1497 + 16 * workers - 1) / (16 * workers);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lines[i]["step"], per_epoch * static_cast<int>(i + 1));
    const double correct = lines[i]["train_accuracy"].get<double>() * 1497;
    EXPECT_NEAR(correct, std::round(correct), 1e-6);
    EXPECT_EQ(lines[i]["workers"].size(), static_cast<std::size_t>(workers));
  }
  EXPECT_GT(lines[4]["test_accuracy"], 0.8);
  EXPECT_EQ(lines[4]["workers"], workers);
  EXPECT_EQ(lines[4]["bytes_sent"] == 0, workers == 1);
  run.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Few, Workers, testing::Values(1, 4));

TEST(TrainStop, UntilEndsARunEarly) {
  const TrainRun run;
  const auto lines = json_lines(run.train(small_run({"--until", "accuracy=0.8", "--epochs", "50"})).output);
  ASSERT_GE(lines.size(), 2u);
  const json& last = lines.back();
  EXPECT_EQ(last["stop_reason"], "reached accuracy=0.8");
  EXPECT_LT(last["epoch"], 50);
  EXPECT_GE(last["test_accuracy"], 0.8);
  for (std::size_t i = 0; i + 2 < lines.size(); ++i) EXPECT_LT(lines[i]["test_accuracy"], 0.8);
}

TEST(TrainStop, AHeldOutPartDrivesUntil) {
  const TrainRun run;
  const auto lines =
      json_lines(run.train(small_run({"--until", "accuracy=0.85", "--epochs", "50", "--valid", "10%"})).output);
  ASSERT_GE(lines.size(), 2u);
  const std::size_t epochs = lines.size() - 1;
  for (std::size_t i = 0; i < epochs; ++i) {
    ASSERT_TRUE(lines[i].contains("valid_accuracy") && lines[i].contains("valid_loss")) << lines[i];
    EXPECT_EQ(lines[i]["valid_accuracy"] >= 0.85, i + 1 == epochs) << lines[i];
    const double correct = lines[i]["train_accuracy"].get<double>() * (1497 - 150);
    EXPECT_NEAR(correct, std::round(correct), 1e-6);
  }
  EXPECT_EQ(lines.back()["stop_reason"], "reached accuracy=0.85");
}

TEST(TrainStop, StepsAreExact) {
  const TrainRun run;
  const auto lines = json_lines(run.train(small_run({"--steps", "7"})).output);
  ASSERT_EQ(lines.size(), 1u);  // the first epoch has twelve
  EXPECT_EQ(lines[0]["step"], 7);
  EXPECT_EQ(lines[0]["stop_reason"], "all steps done");
  EXPECT_GT(lines[0]["loss"], 0);
  EXPECT_GT(lines[0]["test_accuracy"], 0);
}

}  // namespace
}  // namespace paceline
