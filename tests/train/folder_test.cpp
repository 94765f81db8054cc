// What a run leaves in its folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "paceline/record/checkpoint_files.hpp"
#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

using nlohmann::json;

TEST(TrainFolder, HoldsTheConfigurationTheMetricsTheModelAndTheReport) {
  const TrainRun run;
  const Ended ended = run.train(small_run({"--epochs", "2"}));
  const json config = json::parse(bytes_of(run.path("config.json")));
  EXPECT_EQ(config.at("model"), "mlp:16");
  EXPECT_EQ(config.at("workers"), 2);
  EXPECT_EQ(bytes_of(run.path("metrics.jsonl")), ended.output);
  EXPECT_GT(bytes_of(run.path("model.pt")).size(), 4u * (64 * 16 + 16 + 16 * 10 + 10));
  const SafetensorsFile model(run.path("model.safetensors"));
  EXPECT_EQ(model.arrays().size(), 4u);
  const std::string report = bytes_of(run.path("report.html"));
  EXPECT_TRUE(contains(report, "<html") && contains(report, "</html>"));
  EXPECT_TRUE(contains(report, "mlp:16"));
  // What is written beside and renamed leaves nothing.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run.folder())) {
    EXPECT_FALSE(contains(entry.path(), ".tmp-") || contains(entry.path(), ".part")) << entry.path();
  }
}

TEST(TrainFolder, KeepsTheNewestCheckpoints) {
  const TrainRun run;
  run.train(small_run({"--epochs", "3", "--keep", "2", "--checkpoint-every", "5"}));
  const CheckpointFiles files(run.path("checkpoint"), 2);
  EXPECT_EQ(files.list(),
            (Words{run.path("checkpoint/step-000000036.ckpt"), run.path("checkpoint/step-000000035.ckpt")}));
  const Checkpoint newest = files.load(files.list().at(0));
  EXPECT_EQ(newest.state.at("epoch"), 3);
  EXPECT_EQ(newest.state.at("consumed"), 0);
}

// In each step both ranks wait for each other. On one time axis a rank's step therefore begins after the other's step
// before has begun; with an axis for each rank it would not.
TEST(TrainFolder, TheTraceHasBothRanksOnOneTimeAxis) {
  const TrainRun run;
  run.train(small_run({"--epochs", "2"}));
  const json trace = json::parse(bytes_of(run.path("trace.json")));
  std::set<std::string> names;
  std::map<int, std::map<int, double>> computes;  // by rank and step
  double first = 1e30;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "process_name") names.insert(event.at("args").at("name").get<std::string>());
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("dur"), 0);
    first = std::min(first, event.at("ts").get<double>());
    if (event.at("name") == "compute")
      computes[event.at("pid").get<int>()][event.at("args").at("step").get<int>()] = event.at("ts").get<double>();
  }
  EXPECT_EQ(first, 0);
  ASSERT_EQ(names.size(), 2u);
  for (const std::string& name : names) EXPECT_GT(numbers_after(name, "pid ").at(0), 1) << name;
  ASSERT_EQ(computes.size(), 2u);
  ASSERT_EQ(computes[0].size(), 24u);
  ASSERT_EQ(computes[1].size(), 24u);
  for (int step = 0; step + 1 < 24; ++step) {
    EXPECT_GT(computes[0][step + 1], computes[1][step]) << step;
    EXPECT_GT(computes[1][step + 1], computes[0][step]) << step;
  }
}

}  // namespace
}  // namespace paceline
