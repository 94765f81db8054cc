#include "paceline/record/progress_line.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

namespace paceline {
namespace {

const Progress kSample = {.epoch = 2,
                          .epochs = 3,
                          .step = 412,
                          .steps = 469,
                          .samples_per_s = 1834.2,
                          .loss = 0.29312,
                          .accuracy = 0.891,
                          .seconds_left = 41,
                          .wait_shares = {0.02f, 0.03f}};

std::string without_escapes(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9]*m"), "");
}

// Columns on the screen: code points, as all of them are narrow.
int width(const std::string& text) {
  int columns = 0;
  for (const unsigned char c : text) columns += c < 0x80 || c >= 0xC0;
  return columns;
}

std::vector<Progress> samples() {
  Progress many = kSample, odd = kSample, large = kSample;
  many.wait_shares.assign(64, 0.4f);
  odd.loss = odd.samples_per_s = odd.accuracy = std::nan("");
  odd.seconds_left = -1;
  odd.wait_shares.clear();
  large.epoch = large.epochs = 100000;
  large.step = large.steps = 9999999999;
  large.samples_per_s = 1e12;
  large.loss = 1e30;
  large.seconds_left = 1e9;
  return {kSample, many, odd, large};
}

TEST(ProgressLine, SaysEverythingWhereThereIsRoom) {
  EXPECT_EQ(
      progress_line(kSample, 120, false),
      "epoch 2/3 ━━━━━━━━━━━━━━━━━━━━━─── 412/469  1,834 samples/s  loss 0.2931  acc 89.1%  0:41 left  wait 2% 3%");
}

TEST(ProgressLine, NeverExceedsTheWidthAndAlwaysHoldsTheStep) {
  for (const Progress& progress : samples()) {
    const std::string step = std::to_string(progress.step);
    for (int columns = 10; columns <= 200; ++columns) {
      const std::string line = progress_line(progress, columns, false);
      EXPECT_LE(width(line), columns) << line;
      EXPECT_NE(line.find(step), std::string::npos) << line;
    }
  }
}

TEST(ProgressLine, ColourAddsNothingButEscapes) {
  for (const Progress& progress : samples()) {
    for (int columns = 10; columns <= 200; ++columns) {
      EXPECT_EQ(without_escapes(progress_line(progress, columns, true)), progress_line(progress, columns, false));
    }
  }
  EXPECT_NE(progress_line(kSample, 80, true).find("\x1b["), std::string::npos);
  EXPECT_TRUE(progress_line(kSample, 80, true).ends_with("left"));
}

TEST(ProgressLine, GivesUpTheLeastImportantFirst) {
  const auto says = [](int columns, const char* part) {
    return progress_line(kSample, columns, false).find(part) != std::string::npos;
  };
  int before = 0;
  for (const char* part : {"412", "epoch", "━", "loss", "left", "acc", "samples/s", "wait"}) {
    int columns = 1;
    while (columns < 200 && !says(columns, part)) ++columns;
    EXPECT_GT(columns, before) << part;
    before = columns;
    for (; columns <= 200; ++columns) EXPECT_TRUE(says(columns, part)) << part << " at " << columns;
  }
}

TEST(ProgressLine, TheBarGoesFromEmptyToFull) {
  Progress progress = kSample;
  progress.step = 0;
  EXPECT_EQ(progress_line(progress, 80, false).find("━"), std::string::npos);
  progress.step = progress.steps;
  EXPECT_EQ(progress_line(progress, 80, false).find("─"), std::string::npos);
  progress.steps = 0;
  EXPECT_LE(width(progress_line(progress, 80, false)), 80);
}

TEST(ProgressLine, ManyRanksWaitAsARange) {
  Progress progress = kSample;
  progress.wait_shares.assign(64, 0.4f);
  progress.wait_shares[7] = 0.01f;
  EXPECT_TRUE(plain_progress_line(progress).ends_with("wait 1% to 40%"));
}

TEST(ProgressLine, OfNumbersTheErrorIsShownInsteadOfAnAccuracy) {
  Progress progress = kSample;
  progress.score = Score::rmse;
  progress.loss = 4;
  EXPECT_NE(plain_progress_line(progress).find("loss 4.0000  rmse 2.0000  0:41 left"), std::string::npos);
  EXPECT_EQ(plain_progress_line(progress).find("acc"), std::string::npos);
}

TEST(ProgressLine, AWidthOfNothingIsAnEmptyLine) {
  EXPECT_EQ(progress_line(kSample, 0, false), "");
  EXPECT_EQ(progress_line(kSample, -5, true), "");
}

TEST(PlainProgressLine, HasNeitherBarNorColour) {
  EXPECT_EQ(plain_progress_line(kSample),
            "epoch 2/3  step 412/469  1,834 samples/s  loss 0.2931  acc 89.1%  0:41 left  wait 2% 3%");
}

TEST(EpochLine, SumsUpAnEpoch) {
  EpochMetrics metrics = {.epoch = 2,
                          .seconds = 41.23,
                          .loss = 0.29312,
                          .train_accuracy = 0.894,
                          .test_accuracy = 0.887,
                          .samples_per_s = 1834,
                          .wait_share = 0.021};
  EXPECT_EQ(epoch_line(metrics, 3),
            "epoch 2/3  loss 0.2931  train 89.4%  test 88.7%  1,834 samples/s  wait 2.1%  41.2 s");
  metrics.valid_accuracy = 0.88;
  metrics.train_accuracy = std::nan("");
  EXPECT_EQ(epoch_line(metrics, 0),
            "epoch 2  loss 0.2931  valid 88.0%  test 88.7%  1,834 samples/s  wait 2.1%  41.2 s");
}

TEST(EpochLine, OfNumbersTellsTheirError) {
  EpochMetrics metrics = {.epoch = 2, .seconds = 41.23, .loss = 0.25, .test_rmse = 0.5414, .samples_per_s = 1834};
  EXPECT_EQ(epoch_line(metrics, 3), "epoch 2/3  loss 0.2500  test rmse 0.5414  1,834 samples/s  wait 0.0%  41.2 s");
  metrics.valid_loss = 4;
  EXPECT_NE(epoch_line(metrics, 3).find("loss 0.2500  valid rmse 2.0000  test rmse 0.5414"), std::string::npos);
}

}  // namespace
}  // namespace paceline
