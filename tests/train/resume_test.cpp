// Runs that stop and go on.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "paceline/record/checkpoint_files.hpp"
#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

using nlohmann::json;

void flip_byte_in_the_middle(const std::string& path) {
  std::string bytes = bytes_of(path);
  bytes.at(bytes.size() / 2) ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<json> told(const TrainRun& run) { return results_of(bytes_of(run.path("metrics.jsonl"))); }

void expect_same_run(const TrainRun& one, const TrainRun& other) {
  EXPECT_TRUE(bytes_of(one.path("model.safetensors")) == bytes_of(other.path("model.safetensors")));
  EXPECT_EQ(told(one), told(other));
}

TEST(Resume, AfterSomeStepsItIsTheRunThatDidNotStop) {
  const TrainRun straight, stopped;
  straight.train(small_run({"--epochs", "4"}));
  stopped.train(small_run({"--epochs", "4", "--steps", "19"}));
  const Ended rest = stopped.train(small_run({"--epochs", "4", "--resume"}));
  expect_same_run(straight, stopped);
  const auto lines = json_lines(rest.output);
  ASSERT_EQ(lines.size(), 4u);  // epochs 2, 3, 4: only what this run has done
  EXPECT_EQ(lines[0]["epoch"], 2);
  EXPECT_EQ(lines[3]["step"], 48);
}

TEST(Resume, AfterAnInterruptItIsTheRunThatDidNotStop) {
  const Words words = small_run({"--epochs", "4", "--batch", "2"});  // long epochs, to be hit in the middle of one
  const TrainRun straight, stopped;
  straight.train(words);
  Command command = stopped.start(words);
  command.read_until("\"epoch\":1,");
  command.signal(SIGINT);
  const Ended ended = command.wait();
  ASSERT_EQ(ended.exit_code, 128 + SIGINT) << ended.errors;
  EXPECT_LT(json_lines(ended.output).back()["step"], 1500);
  Words again = words;
  again.push_back("--resume");
  stopped.train(again);
  expect_same_run(straight, stopped);
}

// Also when the last checkpoint by steps falls on the end of an epoch.
TEST(Resume, AtTheEndOfAnEpochNothingIsToldTwice) {
  const TrainRun straight, stopped;
  straight.train(small_run({"--epochs", "2"}));
  stopped.train(small_run({"--epochs", "1", "--checkpoint-every", "12"}));
  stopped.train(small_run({"--epochs", "2", "--resume"}));
  expect_same_run(straight, stopped);
}

TEST(Resume, ARunThatIsOverHasNothingToDo) {
  const TrainRun run;
  const json before = json_lines(run.train(small_run({"--epochs", "1"})).output).back();
  const std::string model = bytes_of(run.path("model.safetensors"));
  const Ended ended = run.train(small_run({"--epochs", "1", "--resume"}));
  const auto lines = json_lines(ended.output);
  ASSERT_EQ(lines.size(), 1u);
  for (const char* key : {"stop_reason", "epoch", "step", "loss", "train_accuracy", "test_loss", "test_accuracy"})
    EXPECT_EQ(lines[0][key], before[key]) << key;
  EXPECT_TRUE(bytes_of(run.path("model.safetensors")) == model);
  EXPECT_EQ(told(run).size(), 1u);
}

// 5 steps of 2 x 64 have taken 640 of 1497 examples; 3 x 64 take the rest in 5 steps, and 8 in each epoch after.
TEST(Resume, AnotherNumberOfWorkersGoesOn) {
  const TrainRun straight, run;
  const json expected = json_lines(straight.train(small_run({"--epochs", "4"})).output).back();
  run.train(small_run({"--epochs", "4", "--steps", "5"}));
  const CheckpointFiles files(run.path("checkpoint"), 3);
  EXPECT_EQ(files.load(files.list().at(0)).state.at("consumed"), 640);
  const Ended ended =
      run.train({"--model", "mlp:16", "--data", "digits", "--workers", "3", "--epochs", "4", "--resume"});
  const auto lines = json_lines(ended.output);
  ASSERT_EQ(lines.size(), 5u);
  for (int i = 0; i < 4; ++i) {
    const json& line = lines[static_cast<std::size_t>(i)];
    EXPECT_EQ(line["step"], 10 + 8 * i);
    const double correct = line["train_accuracy"].get<double>() * 1497;  // each example once
    EXPECT_NEAR(correct, std::round(correct), 1e-6);
  }
  EXPECT_NEAR(lines[4]["test_accuracy"].get<double>(), expected["test_accuracy"].get<double>(), 0.1);
}

TEST(Resume, ADamagedCheckpointIsNamedAndTheOneBeforeIsUsed) {
  const TrainRun straight, run;
  straight.train(small_run({"--epochs", "3"}));
  run.train(small_run({"--epochs", "2"}));
  const std::string newest = run.path("checkpoint/step-000000024.ckpt");
  flip_byte_in_the_middle(newest);
  const Ended ended = run.train(small_run({"--epochs", "3", "--resume"}));
  EXPECT_TRUE(contains(ended.errors, newest)) << ended.errors;
  expect_one_sentence(ended.errors);
  EXPECT_EQ(json_lines(ended.output)[0]["epoch"], 2);
  expect_same_run(straight, run);
}

TEST(Resume, WithoutAGoodCheckpointItIsRefused) {
  const TrainRun run;
  run.train(small_run({"--epochs", "1"}));
  const std::string before = bytes_of(run.path("metrics.jsonl"));
  flip_byte_in_the_middle(run.path("checkpoint/step-000000012.ckpt"));
  const Ended ended = run.start(small_run({"--epochs", "2", "--resume"})).wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, "step-000000012.ckpt")) << ended.errors;
  EXPECT_EQ(bytes_of(run.path("metrics.jsonl")), before);
}

TEST(Resume, ACheckpointOfAnotherRunIsRefusedAndStaysAsItWas) {
  const TrainRun run;
  run.train(small_run({"--epochs", "1"}));
  const std::string config = bytes_of(run.path("config.json"));
  const std::pair<const char*, Words> others[] = {
      {"model", {"--model", "softmax", "--data", "digits"}},
      {"data", {"--model", "mlp:16", "--data", "synthetic:1x8x8,train=512,test=64"}},
      {"optimizer", {"--model", "mlp:16", "--data", "digits", "--optimizer", "adam"}},
      {"seed", {"--model", "mlp:16", "--data", "digits", "--seed", "7"}},
      {"valid", {"--model", "mlp:16", "--data", "digits", "--valid", "10%"}}};
  for (const auto& [what, words] : others) {
    Words all = words;
    all.insert(all.end(), {"--workers", "2", "--epochs", "2", "--resume"});
    const Ended ended = run.start(all).wait();
    EXPECT_EQ(ended.exit_code, 2) << what;
    EXPECT_EQ(ended.output, "");
    expect_one_sentence(ended.errors);
    EXPECT_TRUE(contains(ended.errors, "step-000000012.ckpt") && contains(ended.errors, what)) << ended.errors;
    EXPECT_EQ(bytes_of(run.path("config.json")), config) << what;
  }
}

}  // namespace
}  // namespace paceline
