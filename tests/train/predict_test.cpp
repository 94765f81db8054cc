// `paceline predict` as a user starts it, on the models of small runs.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Predict : public testing::Test {
 protected:
  // Trained once for all cases that only look.
  static void SetUpTestSuite() {
    run_ = new TrainRun;
    last_ = json_lines(run_->train(small_run({"--epochs", "8", "--model", "mlp:512,512"})).output).back();
  }
  static void TearDownTestSuite() {
    delete run_;
    run_ = nullptr;
  }
  static Ended predict(const Words& options) {
    Words words = {PACELINE_PROGRAM, "predict", run_->folder()};
    words.insert(words.end(), options.begin(), options.end());
    return run_->start_marked(words).wait();
  }
  static json result(Words options) {
    options.push_back("--json");
    const Ended ended = predict(options);
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    return json_lines(ended.output).back();
  }

  static inline TrainRun* run_ = nullptr;
  static inline json last_;
};

TEST_F(Predict, FindsTheAccuracyThatTrainingEndedWith) {
  for (const char* workers : {"1", "2", "3"}) {
    const json told = result({"--workers", workers});
    EXPECT_EQ(told["examples"], 300);
    EXPECT_NEAR(told["accuracy"].get<double>(), last_["test_accuracy"].get<double>(), 1e-9) << workers;
    EXPECT_NEAR(told["loss"].get<double>(), last_["test_loss"].get<double>(), 1e-4) << workers;
    for (const char* who : {"paceline", "plain"}) {
      EXPECT_GT(told[who]["samples_per_s"], 0);
      EXPECT_LE(told[who]["p50_ms"], told[who]["p99_ms"]);
    }
  }
  run_->expect_nothing_left();
}

TEST_F(Predict, TextIsASmallTable) {
  const Ended ended = predict({"--workers", "2"});
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "300 examples; 2 workers x batch 64, fp32")) << ended.output;
  EXPECT_TRUE(contains(ended.output, "plain LibTorch")) << ended.output;
  EXPECT_TRUE(contains(ended.output, "accuracy ")) << ended.output;
}

TEST_F(Predict, OutputHasALineForEachExampleInOrder) {
  const std::string path = run_->path("predicted.csv");
  const json told = result({"--workers", "2", "--batch", "32", "--output", path});
  const Words lines = lines_of(bytes_of(path));
  ASSERT_EQ(lines.size(), 301u);
  EXPECT_EQ(lines[0], "example,label,predicted,probability");
  int correct = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    int example = -1, label = -1, predicted = -1;
    double probability = -1;
    ASSERT_EQ(std::sscanf(lines[i].c_str(), "%d,%d,%d,%lf", &example, &label, &predicted, &probability), 4) << lines[i];
    EXPECT_EQ(example, static_cast<int>(i) - 1);
    EXPECT_TRUE(probability >= 0.1 && probability <= 1) << lines[i];
    correct += label == predicted;
  }
  EXPECT_NEAR(told["accuracy"].get<double>(), correct / 300.0, 1e-9);
}

TEST_F(Predict, ALowerPrecisionIsNearlyAsGood) {
  for (const char* precision : {"bf16", "int8"}) {
    const json told = result({"--workers", "1", "--precision", precision, "--force"});
    EXPECT_NEAR(told["accuracy"].get<double>(), last_["test_accuracy"].get<double>(), 0.03) << precision;
    EXPECT_NE(told["loss"], last_["test_loss"]) << precision;
    EXPECT_GT(told["trial"]["fp32_ms"], 0);
    EXPECT_GT(told["trial"]["lower_ms"], 0);
  }
}

// Quicker, or refused with both figures: which of them is the machine's.
TEST_F(Predict, ALowerPrecisionThatIsSlowerIsRefusedOnce) {
  const Ended ended = predict({"--workers", "2", "--precision", "bf16", "--batch", "1", "--json"});
  if (ended.exit_code == 0) {
    const json trial = json_lines(ended.output).back()["trial"];
    EXPECT_LT(trial["lower_ms"], trial["fp32_ms"]);
    return;
  }
  EXPECT_EQ(ended.exit_code, 2);
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, "times as long as fp32 on this machine")) << ended.errors;
}

TEST_F(Predict, WhatCannotBeIsOneSentence) {
  struct Case {
    Words words;
    const char* says;
  };
  const std::vector<Case> cases = {
      {{"--data", "synthetic:1x4x4,classes=10,train=100"}, "the model was trained on images of 1x8x8"},
      {{"--data", "nowhere"}, "nowhere"},
      {{"--precision", "fp8"}, "fp8"},
      {{"--workers", "301"}, "301 workers are more than the 300 examples"},
      {{"--output", "/no/such/folder/x.csv"}, "/no/such/folder"}};
  for (const Case& one : cases) {
    const Ended ended = predict(one.words);
    EXPECT_EQ(ended.exit_code, 2) << ended.output;
    expect_one_sentence(ended.errors);
    EXPECT_TRUE(contains(ended.errors, one.says)) << ended.errors;
  }
}

TEST_F(Predict, AFolderWithoutAModelIsRefused) {
  const TrainRun run;
  run.train(small_run({"--steps", "1"}));
  const Words words = {PACELINE_PROGRAM, "predict", run.folder(), "--workers", "2"};
  fs::resize_file(run.path("model.safetensors"), 1000);
  const Ended damaged = run.start_marked(words).wait();
  EXPECT_EQ(damaged.exit_code, 2);
  expect_one_sentence(damaged.errors);
  EXPECT_TRUE(contains(damaged.errors, "model.safetensors")) << damaged.errors;
  fs::remove(run.path("model.safetensors"));
  EXPECT_EQ(run.start_marked(words).wait().exit_code, 0) << "model.pt is as good";
  fs::remove(run.path("model.pt"));
  EXPECT_TRUE(contains(run.start_marked(words).wait().errors, "has no model"));
  fs::remove(run.path("config.json"));
  EXPECT_TRUE(contains(run.start_marked(words).wait().errors, "not the folder of a training run"));
}

}  // namespace
}  // namespace paceline
