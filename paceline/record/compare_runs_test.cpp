#include "paceline/record/compare_runs.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "paceline/record/compare_test_support.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class RunOfFolder : public testing::Test {
 protected:
  RunOfFolder() { fs::create_directories(folder_); }
  ~RunOfFolder() override { fs::remove_all(folder_); }

  void write(const std::string& text) const { std::ofstream(folder_ + "/metrics.jsonl") << text; }
  static std::string epochs() {
    std::string text;
    for (const EpochMetrics& epoch : made_up_run(1, {0.5, 0.9}, 10).epochs) text += to_json(epoch).dump() + "\n";
    return text;
  }

  const std::string folder_ = testing::TempDir() + "paceline_compare_" + std::to_string(getpid());
};

TEST_F(RunOfFolder, IsCompleteWithItsLastLine) {
  write(epochs() + made_up_run(1, {0.5, 0.9}, 10).final.dump() + "\n");
  const auto run = read_complete_run(folder_, 7);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->seed, 7u);
  EXPECT_EQ(run->epochs.size(), 2u);
  EXPECT_EQ(points_of(*run).size(), 2u);
}

TEST_F(RunOfFolder, IsNotCompleteOtherwise) {
  EXPECT_FALSE(read_complete_run(folder_ + "/none", 1).has_value());
  EXPECT_FALSE(read_complete_run(folder_, 1).has_value());
  write(epochs());
  EXPECT_FALSE(read_complete_run(folder_, 1).has_value());
  write(epochs() + R"({"final":true,"stop_reason":"interrupted by SIGINT"})" + "\n");
  EXPECT_FALSE(read_complete_run(folder_, 1).has_value());
  write(epochs() + "{\"epoch\":3,\"st");
  EXPECT_FALSE(read_complete_run(folder_, 1).has_value());
}

}  // namespace
}  // namespace paceline
