// Same seed, same workers: the same model to the last bit, whichever way the gradients went.
#include <gtest/gtest.h>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

struct Trained {
  std::string model;
  std::vector<nlohmann::json> results;
};

Trained trained(const std::string& workers, const Words& more) {
  const TrainRun run;
  Words words = {"--model", "mlp:16", "--data", "digits", "--workers", workers, "--epochs", "2"};
  words.insert(words.end(), more.begin(), more.end());
  const Ended ended = run.train(words);
  return {bytes_of(run.path("model.safetensors")), results_of(ended.output)};
}

TEST(SameResult, TwiceTheSameRun) {
  const Trained once = trained("2", {});
  const Trained again = trained("2", {});
  EXPECT_TRUE(once.model == again.model);
  EXPECT_EQ(once.results, again.results);
  EXPECT_FALSE(once.model == trained("2", {"--seed", "2"}).model);
}

TEST(SameResult, WhicheverWayGradientsTravel) {
  const Trained ordered = trained("2", {"--where", "ordered"});
  EXPECT_TRUE(ordered.model == trained("2", {"--where", "shm"}).model);
  EXPECT_TRUE(ordered.model == trained("2", {"--bucket", "1KiB"}).model);
}

// As a program of a user's, or from a Kubernetes manifest.
TEST(SameResult, AsWorkersOfPacelineRun) {
  const TrainRun run;
  const Ended ended =
      run.start_marked({PACELINE_PROGRAM, "run", "-n", "2", PACELINE_PROGRAM, "train", "--model", "mlp:16", "--data",
                        "digits", "--epochs", "2", "--out", run.folder(), "--quiet"})
          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(bytes_of(run.path("model.safetensors")) == trained("2", {}).model);
}

// With three the order of a sum shows.
TEST(SameResult, WithThreeWorkersToo) {
  const Trained ordered = trained("3", {"--where", "ordered"});
  EXPECT_TRUE(ordered.model == trained("3", {"--where", "ordered", "--bucket", "1KiB"}).model);
  EXPECT_TRUE(ordered.model == trained("3", {"--where", "shm"}).model);
}

}  // namespace
}  // namespace paceline
