// `paceline compare` as a user starts it: plans, seeds, what is left behind, and what happens when something fails.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class Compare : public testing::Test {
 protected:
  Compare() { fs::create_directories(run_.folder()); }

  void write_plans(const std::string& text) const { std::ofstream(plans_) << text; }
  Words words(const Words& options, const Words& common) const {
    Words all = {PACELINE_PROGRAM, "compare", "--plans", plans_, "--out", out_};
    all.insert(all.end(), options.begin(), options.end());
    all.push_back("--");
    all.insert(all.end(), common.begin(), common.end());
    return all;
  }
  Ended compare(const Words& options, const Words& common = small_run({"--epochs", "2"})) const {
    return run_.start_marked(words(options, common)).wait();
  }
  std::string folder(const std::string& plan, int seed) const {
    return out_ + "/" + plan + "/seed-" + std::to_string(seed);
  }

  const TrainRun run_;
  const std::string plans_ = run_.path("plans.txt");
  const std::string out_ = run_.path("out");
};

TEST_F(Compare, TrainsEveryPlanWithEverySeedAndSaysWhoWins) {
  write_plans("# two ways\nbsp: --where allreduce\nlarge: --batch 128 --lr 0.05\n");
  const Ended ended = compare({"--seeds", "2", "--to", "accuracy=0.3", "--price", "2"});
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
  // Contestants alternate.
  const Words lines = lines_of(ended.output);
  ASSERT_GE(lines.size(), 8u) << ended.output;
  EXPECT_TRUE(lines[0].starts_with("seed 1 of 2, bsp: ")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("seed 1 of 2, large: ")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("seed 2 of 2, bsp: ")) << lines[2];
  EXPECT_TRUE(contains(ended.output, "±")) << ended.output;
  EXPECT_TRUE(contains(ended.output, "accuracy=0.3 first: ")) << ended.output;
  EXPECT_TRUE(contains(ended.output, "cost to it")) << ended.output;
  const std::string page = bytes_of(out_ + "/compare.html");
  EXPECT_TRUE(contains(page, "<td>large</td><td>--batch 128 --lr 0.05</td>"));
  const auto config = nlohmann::json::parse(bytes_of(folder("large", 2) + "/config.json"));
  EXPECT_EQ(config["seed"], 2);
  EXPECT_EQ(config["batch"], 128);
  EXPECT_EQ(config["epochs"], 2);
  run_.expect_nothing_left();
}

TEST_F(Compare, RunsThatAreCompleteAreNotRepeated) {
  write_plans("a: --lr 0.05\n");
  compare({"--seeds", "1"});
  const auto made = fs::last_write_time(folder("a", 1) + "/metrics.jsonl");
  const Ended ended = compare({"--seeds", "2"});
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "(from before)")) << ended.output;
  EXPECT_EQ(fs::last_write_time(folder("a", 1) + "/metrics.jsonl"), made);
  EXPECT_TRUE(fs::exists(folder("a", 2) + "/model.pt"));
  // With other options it would be another comparison.
  write_plans("a: --lr 0.06\n");
  const Ended refused = compare({"--seeds", "1"});
  EXPECT_EQ(refused.exit_code, 2);
  expect_one_sentence(refused.errors);
  EXPECT_TRUE(contains(refused.errors, "holds a run with other options")) << refused.errors;
}

TEST_F(Compare, APlanThatFailsIsShownWhileTheOthersGoOn) {
  // A gradient that is not a number is known only when it is computed.
  write_plans("wild: --optimizer sgd --lr 1000000 --weight-decay 1000000\ngood: --lr 0.05\n");
  const Ended ended = compare({"--seeds", "1", "--json"}, small_run({"--epochs", "3"}));
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  const auto json = json_lines(ended.output).back();
  EXPECT_EQ(json["plans"][0]["failed"], 1);
  EXPECT_EQ(json["plans"][1]["complete"], 1);
  EXPECT_TRUE(contains(json["verdict"].get<std::string>(), "wild failed")) << json["verdict"];
  EXPECT_TRUE(contains(bytes_of(out_ + "/compare.html"), "wild failed with seed 1: "));
  run_.expect_nothing_left();
}

TEST_F(Compare, AWrongLineIsRefusedBeforeAnythingRuns) {
  write_plans("good: --lr 0.05\n\nbad: --where moon\n");
  const Ended ended = compare({"--seeds", "1"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, "line 3 of the plans, 'bad'")) << ended.errors;
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Compare, AnInterruptEndsTheRunAndLeavesWhatIsComplete) {
  write_plans("short: --epochs 1\nlong: --epochs 100000\n");
  Command command = run_.start_marked(words({"--seeds", "1"}, small_run()));
  command.read_until("seed 1 of 1, short");
  EXPECT_TRUE(eventually([&] { return fs::exists(folder("long", 1) + "/metrics.jsonl"); }));
  command.signal(SIGINT);
  const Ended ended = command.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "interrupted; the same command")) << ended.output;
  EXPECT_TRUE(contains(bytes_of(out_ + "/compare.html"), "interrupted"));
  EXPECT_TRUE(fs::exists(folder("short", 1) + "/model.pt"));
  run_.expect_nothing_left();
}

}  // namespace
}  // namespace paceline
