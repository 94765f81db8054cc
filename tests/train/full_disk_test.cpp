// A disk that becomes full while a run writes to it: a small tmpfs, seen only by the run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

// `before` is run in the file system of so many KiB, mounted on the run's folder.
Words on_small_disk(const TrainRun& run, int kibibytes, const std::string& before) {
  std::filesystem::create_directories(run.folder());
  return {"/bin/sh", "-c",
          fmt::format("exec unshare -m sh -c 'mount -t tmpfs -o size={}k none {} && {} && exec \"$@\"' sh \"$@\"",
                      kibibytes, run.folder(), before),
          "sh"};
}

bool can_mount() {
  const TrainRun run;
  Words command = on_small_disk(run, 64, "true");
  command.push_back("true");
  return Command(command).wait().exit_code == 0;
}

Ended train_on_small_disk(const TrainRun& run, int kibibytes, const std::string& before = "true") {
  Words command = on_small_disk(run, kibibytes, before);
  for (const std::string& word : Words{PACELINE_PROGRAM, "train", "--out", run.folder(), "--json"})
    command.push_back(word);
  for (const std::string& word : small_run({"--epochs", "3", "--keep", "1"})) command.push_back(word);
  return run.start_marked(command).wait();
}

class FullDisk : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!can_mount()) GTEST_SKIP() << "needs root and mount namespaces";
  }
};

// The worker's sentence, and nothing of the launcher and of the worker that only followed.
TEST_P(FullDisk, EndsARunWithASentenceThatNamesTheFile) {
  const TrainRun run;
  const Ended ended = train_on_small_disk(run, GetParam());
  EXPECT_EQ(ended.exit_code, 1);
  run.expect_nothing_left();
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(ended.errors.starts_with("paceline: cannot write ") && contains(ended.errors, run.folder() + "/") &&
              contains(ended.errors, "No space left on device"))
      << ended.errors;
}

// While metrics, the first checkpoint, a later one, and the report are written.
INSTANTIATE_TEST_SUITE_P(Kibibytes, FullDisk, testing::Values(4, 8, 68, 128));

TEST_F(FullDisk, IsRefusedBeforeWorkersStart) {
  const TrainRun run;
  const Ended ended = train_on_small_disk(run, 4, fmt::format("head -c 4096 /dev/zero > {}/full", run.folder()));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, run.folder()) && contains(ended.errors, "No space left")) << ended.errors;
}

}  // namespace
}  // namespace paceline
