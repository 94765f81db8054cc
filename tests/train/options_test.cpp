// Every way of training that an option asks for, through `paceline train`: that it is acted upon, and that it learns.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

using nlohmann::json;

// ---- what is learned

struct Way {
  const char* name;
  Words words;
  double accuracy;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Ways : public testing::TestWithParam<Way> {};

TEST_P(Ways, ReachTheirTarget) {
  const TrainRun run;
  EXPECT_GT(last_line(run, GetParam().words)["test_accuracy"], GetParam().accuracy);
}

INSTANTIATE_TEST_SUITE_P(
    Options, Ways,
    testing::Values(
        Way{"Lars", {"--optimizer", "lars", "--epochs", "6"}, 0.8},
        Way{"Lamb", {"--optimizer", "lamb", "--epochs", "15"}, 0.8},
        Way{"Adagrad", {"--optimizer", "adagrad", "--epochs", "6", "--lr", "0.05"}, 0.8},
        Way{"RmspropWithSettings", {"--optimizer", "rmsprop:momentum=0.9", "--epochs", "6"}, 0.8},
        Way{"StepsAndWarmUp", {"--schedule", "step:2,0.5", "--warmup", "10", "--epochs", "6"}, 0.8},
        Way{"ScaledRate", {"--scale-lr", "sqrt:64", "--schedule", "exponential:0.9", "--epochs", "6"}, 0.8},
        Way{"WholeSet", {"--batch", "all", "--micro-batch", "100", "--epochs", "60", "--lr", "0.1"}, 0.8},
        Way{"Parts", {"--micro-batch", "13", "--epochs", "6"}, 0.8},
        Way{"NoiseByCoordinate", {"--noise", "fisher-diag:64", "--micro-batch", "16", "--epochs", "6"}, 0.75},
        Way{"NoiseByTrace", {"--noise", "fisher-trace:64", "--micro-batch", "16", "--epochs", "6"}, 0.75},
        Way{"Delayed", {"--when", "delayed:1", "--epochs", "8"}, 0.8},
        Way{"DelayedAndClipped", {"--when", "delayed:2", "--clip", "2", "--where", "ring", "--epochs", "14"}, 0.75},
        Way{"LowerPrecision", {"--precision", "bf16", "--epochs", "6"}, 0.8},
        Way{"MovedPictures", {"--augment", "crop:1", "--epochs", "10"}, 0.6},
        Way{"MoreEpochsForLargerBatches", {"--scale-epochs", "64", "--epochs", "3"}, 0.8}),
    [](const auto& way) { return way.param.name; });

TEST(TrainOptions, PartsOfABatchGiveTheWholeBatchesGradient) {
  const TrainRun whole, parts;
  const json one = last_line(whole, {"--epochs", "2"});
  const json other = last_line(parts, {"--epochs", "2", "--micro-batch", "7"});
  EXPECT_NEAR(one["loss"], other["loss"], 1e-4);
}

TEST(TrainOptions, LargerBatchesMakeAsManySteps) {
  const TrainRun run;
  EXPECT_EQ(last_line(run, {"--batch", "62", "--scale-epochs", "31", "--epochs", "2"})["epoch"], 8);
}

// ---- what is measured

TEST(TrainOptions, TheGradientsNoiseIsMeasured) {
  const TrainRun run;
  const json gradient =
      last_line(run, {"--gradient-statistics", "--micro-batch", "16", "--epochs", "2"}).at("gradient");
  EXPECT_GT(gradient.at("noise_scale"), 0);
  EXPECT_GT(gradient.at("diversity_bound"), 1);
}

TEST(TrainOptions, TheEndPointsSharpnessIsMeasured) {
  const TrainRun run;
  const json sharpness = last_line(run, {"--sharpness", "1e-3", "--epochs", "2"}).at("sharpness");
  EXPECT_GE(sharpness.at("percent"), 0);
  EXPECT_GE(sharpness.at("worst_loss"), sharpness.at("loss"));
}

// At a rate that no machine keeps up with, inputs pass; at one that every machine does, none do while it computes.
TEST(TrainOptions, OfAStreamWhatArrivesMeanwhileIsPredictedOnly) {
  const TrainRun quick, slow;
  const json flood = last_line(quick, {"--online", "1e6", "--epochs", "20"}).at("online");
  EXPECT_GT(flood.at("passed_travelling"), 0);
  EXPECT_EQ(flood.at("learned"), flood.at("batches").get<int>() * 128);
  const json trickle = last_line(slow, {"--online", "100", "--epochs", "2"}).at("online");
  EXPECT_EQ(trickle.at("passed_computing"), 0);
  EXPECT_LT(trickle.at("mu"), flood.at("mu"));
}

// ---- other data

class OtherData : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path(name);
    std::filesystem::create_directories(folder_.folder());
    std::ofstream(path) << text;
    return path;
  }
  TrainRun folder_;
};

// y = 3a - 2b: a linear model learns it, and the squared error is what is told.
TEST_F(OtherData, ANumberIsPredictedFromATable) {
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 400; ++i) {
    const double a = std::sin(i), b = std::cos(1.7 * i);
    rows += std::to_string(a) + "," + (i % 50 == 3 ? "" : std::to_string(b)) + "," +
            std::to_string(3 * a - (i % 50 == 3 ? 0 : 2 * b)) + "\n";
  }
  const std::string file = write("numbers.csv", rows);
  const TrainRun run;
  const Words words = {"--model", "softmax",  "--data", "csv:" + file, "--batch",
                       "8",       "--epochs", "30",     "--workers",   "2"};
  const auto lines = json_lines(run.train(words).output);
  EXPECT_LT(lines.back()["test_rmse"], 0.2);
  EXPECT_EQ(lines.front().count("test_rmse"), 1u);
  EXPECT_NE(bytes_of(run.path("report.html")).find("RMSE"), std::string::npos);
}

TEST_F(OtherData, TextIsLearnedAndWrittenByEveryModelForIt) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcdefgh";
  const std::string file = write("letters.txt", text);
  for (const std::string model : {"transformer:1,16,2", "lstm:1,16"}) {
    const TrainRun run;
    const Words words = {"--model",     model,  "--data",   "text:" + file + ",length=16",
                         "--optimizer", "adam", "--lr",     "0.01",
                         "--batch",     "8",    "--epochs", "12",
                         "--workers",   "2"};
    EXPECT_GT(json_lines(run.train(words).output).back()["test_accuracy"], 0.9) << model;
    EXPECT_EQ(bytes_of(run.path("sample.txt")).size(), 500u);
  }
}

TEST_F(OtherData, WeightsOfAnEarlierRunAreAStart) {
  const TrainRun first, second;
  first.train(small_run({"--epochs", "6"}));
  const json cold = last_line(second, {"--epochs", "1"});
  const TrainRun third;
  const json warm = last_line(third, {"--epochs", "1", "--init", first.path("model.safetensors")});
  EXPECT_LT(warm["loss"], cold["loss"].get<double>() / 2);
}

TEST(TrainOptions, AResidualNetworkTrainsWithGhostBatchesAndRecomputation) {
  const TrainRun run;
  const Words words = {"--model",
                       "resnet18",
                       "--data",
                       "synthetic:3x8x8,classes=2,train=64,test=16",
                       "--batch",
                       "8",
                       "--steps",
                       "3",
                       "--workers",
                       "2",
                       "--ghost-batch",
                       "4",
                       "--checkpoint-activations"};
  EXPECT_EQ(json_lines(run.train(words).output).back()["step"], 3);
}

TEST(TrainOptions, ADelayedRunThatStopsGoesOn) {
  const TrainRun run;
  run.train(small_run({"--when", "delayed:1", "--epochs", "4", "--steps", "19"}));
  const json rest = last_line(run, {"--when", "delayed:1", "--epochs", "4", "--resume"});
  EXPECT_EQ(rest["step"], 48);
  EXPECT_GT(rest["test_accuracy"], 0.6);
}

}  // namespace
}  // namespace paceline
