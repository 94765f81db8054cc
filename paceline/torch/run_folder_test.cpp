#include "paceline/torch/run_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/error.hpp"
#include "paceline/data/open.hpp"
#include "paceline/record/atomic_file.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class RunFolder : public testing::Test {
 protected:
  ~RunFolder() override { fs::remove_all(folder_); }

  TrainConfig config() const { return {.model = "softmax", .data = "digits", .workers = 2, .out = folder_ + "/run"}; }
  std::string refusal(TrainConfig config) const {
    try {
      settle(config, data_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      return error.what();
    }
    return "";
  }

  const std::string folder_ = testing::TempDir() + "paceline_run_folder_" + std::to_string(getpid());
  const DataSplit data_ = open_data("digits");
};

TEST_F(RunFolder, HoldsTheConfigurationWithAllThatWasLeftOpen) {
  TrainConfig settled = config();
  settle(settled, data_);
  EXPECT_GT(settled.lr, 0);
  EXPECT_EQ(settled.epochs, 34);  // of 12 steps each
  EXPECT_EQ(nlohmann::ordered_json::parse(read_file(settled.out + "/config.json")), to_json(settled));
}

TEST_F(RunFolder, OfAnotherRunIsRefused) {
  ASSERT_EQ(refusal(config()), "");
  EXPECT_EQ(refusal(config()), "");  // nothing has been done in it yet
  std::ofstream(config().out + "/metrics.jsonl") << "{}\n";
  EXPECT_NE(refusal(config()).find("holds a run already"), std::string::npos);
}

TEST_F(RunFolder, ThatIsRefusedGetsNoConfiguration) {
  TrainConfig resumed = config();
  resumed.resume = true;
  EXPECT_NE(refusal(resumed).find("no checkpoint in " + resumed.out), std::string::npos);
  TrainConfig large = config();
  large.batch = 2000;
  EXPECT_NE(refusal(large).find("1497"), std::string::npos);
  EXPECT_FALSE(fs::exists(config().out + "/config.json"));
}

}  // namespace
}  // namespace paceline
