// `paceline train --model wide-deep` as a user starts it: rows that live on servers, under every plan that has some.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Clicks that follow from two categories together, of which there are 20 and 3; one of them tells two thirds, the other
// nothing. One in twenty is wrong. The numbers and the other categories, of which there are two in each column (with
// many a model learns examples by heart instead), mean nothing, and some are missing.
class Clicks {
 public:
  explicit Clicks(int rows) : path_((fs::temp_directory_path() / fmt::format("clicks-{}.txt", ::getpid())).string()) {
    std::mt19937 random(7);
    std::ofstream file(path_);
    for (int row = 0; row < rows; ++row) {
      const auto thing = random() % 20, place = random() % 3;
      const bool liked = (thing % 2 == 0) != (place == 0);
      const bool clicked = liked != (random() % 20 == 0);
      file << (clicked ? 1 : 0);
      for (int i = 0; i < 13; ++i) file << '\t' << (random() % 5 == 0 ? "" : std::to_string(random() % 1000));
      for (int i = 1; i <= 26; ++i) {
        const auto category = i == 3 ? thing : i == 8 ? place : random() % 2;
        file << '\t' << (i > 8 && random() % 5 == 0 ? "" : fmt::format("{:08x}", category * 40503 + 17));
      }
      file << '\n';
    }
  }
  ~Clicks() { fs::remove(path_); }
  Clicks(const Clicks&) = delete;
  Clicks& operator=(const Clicks&) = delete;

  std::string data() const { return "criteo:" + path_; }

 private:
  std::string path_;
};

Words words_for(const std::string& data, const Words& more) {
  return with_defaults(more, {{"--model", "wide-deep:8"},
                              {"--data", data},
                              {"--workers", "2"},
                              {"--threads", "1"},
                              {"--batch", "32"},
                              {"--where", "server:2"},
                              {"--epochs", "8"},
                              {"--lr", "0.02"},
                              {"--optimizer", "adagrad"}});
}

class WideDeepUnder : public testing::TestWithParam<const char*> {};

TEST_P(WideDeepUnder, LearnsWhatFollowsFromTwoCategoriesTogether) {
  const Clicks clicks(3000);
  const TrainRun run;
  const json last = json_lines(run.train(words_for(clicks.data(), {"--when", GetParam()})).output).back();
  EXPECT_LT(last["test_loss"], 0.45);  // to know only how often is 0.65
  EXPECT_GT(last["test_accuracy"], 0.85);
  EXPECT_GT(last["test_auc"], 0.85);
  EXPECT_TRUE(fs::exists(run.path("model.safetensors")));
  EXPECT_TRUE(fs::exists(run.path("model.rows")));
  run.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Plans, WideDeepUnder, testing::Values("bsp", "ssp:2", "essp:2", "async", "softsync:2"));

TEST(WideDeep, UnderBspTheBitsDependNeitherOnServersNorOnMicroBatches) {
  const Clicks clicks(600);
  const auto results = [&](const Words& more) {
    const TrainRun run;
    return results_of(run.train(words_for(clicks.data(), with_defaults(more, {{"--when", "bsp"}}))).output);
  };
  const auto once = results({"--epochs", "2"});
  EXPECT_EQ(once.size(), 2U);
  EXPECT_EQ(results({"--epochs", "2", "--where", "server:3"}), once);
  const auto in_parts = results({"--epochs", "2", "--micro-batch", "8"});
  EXPECT_NEAR(in_parts.back()["test_loss"].get<double>(), once.back()["test_loss"].get<double>(), 1e-3);
}

struct RefusedWords {
  Words words;
  const char* says;
};

TEST(WideDeep, WhatItCannotDoIsRefusedWithOneSentence) {
  const Clicks clicks(50);
  for (const RefusedWords& refused : std::vector<RefusedWords>{
           {{"--where", "allreduce"}, "use --where server:N"},
           {{"--where", "gossip"}, "use --where server:N"},
           {{"--resume", "--batch", "4"}, "to resume from"},
           {{"--clip", "1"}, "--clip"},
           {{"--precision", "bf16"}, "--precision"},
           {{"--sharpness", "1e-3"}, "--sharpness"},
           {{"--data", "digits"}, "does not take images"},
           {{"--model", "mlp"}, "does not take rows of numbers and keys; what does is wide-deep"},
       }) {
    const TrainRun run;
    const Ended ended = run.start(words_for(clicks.data(), refused.words)).wait();
    EXPECT_EQ(ended.exit_code, 2);
    expect_one_sentence(ended.errors);
    EXPECT_TRUE(contains(ended.errors, refused.says)) << ended.errors;
  }
}

// Its rows come back from the checkpoint with what AdaGrad and FTRL remember of them, those of Adam's dense part too.
TEST(WideDeep, UnderBspARunThatStopsAndGoesOnIsTheOneThatDidNotStopWhateverTheServers) {
  const Clicks clicks(600);
  const auto words = [&](const Words& more) {
    return words_for(clicks.data(),
                     with_defaults(more, {{"--when", "bsp"}, {"--epochs", "3"}, {"--optimizer", "adam"}}));
  };
  const TrainRun straight;
  straight.train(words({}));
  for (const std::string where : {"server:2", "server:3"}) {
    const TrainRun stopped;
    stopped.train(words({"--steps", "13"}));
    EXPECT_EQ(stopped.train(words({"--resume", "--where", where})).errors, "");
    EXPECT_TRUE(bytes_of(straight.path("model.safetensors")) == bytes_of(stopped.path("model.safetensors"))) << where;
    EXPECT_EQ(results_of(bytes_of(straight.path("metrics.jsonl"))), results_of(bytes_of(stopped.path("metrics.jsonl"))))
        << where;
  }
}

TEST(WideDeep, SlowUnderOtherPlansARunGoesOnWhereItWas) {
  const Clicks clicks(2000);
  for (const std::string when : {"ssp:2", "async", "softsync:2"}) {
    const TrainRun run;
    run.train(words_for(clicks.data(), {"--when", when, "--epochs", "8", "--checkpoint-every", "10"}));
    const json before =
        json_lines(run.train(words_for(clicks.data(), {"--when", when, "--epochs", "8", "--resume"})).output).back();
    EXPECT_GT(before["test_auc"], 0.8) << when;  // nothing was left to do: the rows are those of the checkpoint
    const json last =
        json_lines(
            run.train(words_for(clicks.data(), {"--when", when, "--epochs", "12", "--resume", "--where", "server:3"}))
                .output)
            .back();
    EXPECT_GT(last["test_auc"], 0.85) << when;
  }
}

TEST(WideDeep, PredictMeasuresWhatTrainingMeasured) {
  const Clicks clicks(1000);
  const TrainRun run;
  const json trained = json_lines(run.train(words_for(clicks.data(), {"--epochs", "4"})).output).back();
  for (const char* workers : {"1", "2"}) {
    const Ended ended =
        run.start_marked({PACELINE_PROGRAM, "predict", run.folder(), "--workers", workers, "--json"}).wait();
    ASSERT_EQ(ended.exit_code, 0) << ended.errors;
    const json told = json::parse(ended.output);
    EXPECT_NEAR(told["loss"].get<double>(), trained["test_loss"].get<double>(), 1e-6);
    EXPECT_EQ(told["accuracy"], trained["test_accuracy"]);
  }
}

TEST(WideDeep, WhatPredictCannotDoIsRefusedWithOneSentence) {
  const Clicks clicks(200);
  const TrainRun run;
  run.train(words_for(clicks.data(), {"--epochs", "1"}));
  const auto refusal = [&](const Words& more) {
    Words words = {PACELINE_PROGRAM, "predict", run.folder()};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = run.start_marked(words).wait();
    EXPECT_EQ(ended.exit_code, 2);
    expect_one_sentence(ended.errors);
    return ended.errors;
  };
  EXPECT_TRUE(contains(refusal({"--precision", "int8"}), "predicts in fp32"));
  std::string rows = bytes_of(run.path("model.rows"));
  rows.at(rows.size() / 2) ^= 1;
  std::ofstream(run.path("model.rows"), std::ios::binary) << rows;
  EXPECT_TRUE(contains(refusal({}), "model.rows"));
  fs::remove(run.path("model.rows"));
  EXPECT_TRUE(contains(refusal({}), "has no model.rows"));
}

TEST(WideDeep, RealClicksAreLearnedWhereTheyAre) {
  const std::string folder = PACELINE_SHARED_DATA "/criteo";
  if (!fs::is_directory(folder)) GTEST_SKIP() << "there is no " << folder;
  const TrainRun run;
  const std::string data = fmt::format("criteo:{0}/wideresdnn_train.csv,test={0}/wideresdnn_test.csv", folder);
  const json last = json_lines(run.train(words_for(data, {"--epochs", "1"})).output).back();
  EXPECT_LT(last["test_loss"], 0.5);
  EXPECT_GT(last["test_auc"], 0.68);
}

}  // namespace
}  // namespace paceline
