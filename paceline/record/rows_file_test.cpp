#include "paceline/record/rows_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/record/checkpoint_files.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class RowsFileTest : public testing::Test {
 protected:
  RowsFileTest() {
    std::string pattern = testing::TempDir() + "paceline_rows_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~RowsFileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name = "some.rows") const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string write(const std::string& name = "some.rows") const {
    RowsFileWriter writer(path(name));
    writer.append("first", std::string("a\0b", 3));
    writer.append("second", "");
    writer.append("first", "more");
    return writer.publish();
  }
  // What a reader says of a file that it does not take; empty: it takes it.
  std::string refusal(const std::string& name = "some.rows") const try {
    checksum_of_rows(path(name));
    return {};
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path(name)), std::string::npos) << error.what();
    return error.what();
  }
  void save(int keep, std::int64_t step) const {
    const CheckpointFiles files(folder_, keep);
    RowsFileWriter rows = files.begin_rows(step);
    rows.append("t", std::to_string(step));
    CheckpointFiles(folder_, keep).save(step, {{"step", step}}, {}, rows.publish());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_)) result.push_back(entry.path().filename());
    std::sort(result.begin(), result.end());
    return result;
  }

  std::string folder_;
};

TEST_F(RowsFileTest, RecordsComeBackInTheirOrder) {
  const std::string sum = write();
  RowsFileReader reader(path());
  const auto one = reader.next(), two = reader.next(), three = reader.next();
  ASSERT_TRUE(one && two && three);
  EXPECT_EQ(one->name, "first");
  EXPECT_EQ(one->content, std::string("a\0b", 3));
  EXPECT_EQ(two->name, "second");
  EXPECT_EQ(two->content, "");
  EXPECT_EQ(three->content, "more");
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.checksum(), sum);
  EXPECT_EQ(sum.size(), 32u);
}

TEST_F(RowsFileTest, AFlippedBitAnywhereIsFound) {
  write();
  const std::string good = read_file(path());
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 4;
    put("bad.rows", bad);
    EXPECT_NE(refusal("bad.rows"), "") << at;
  }
}

TEST_F(RowsFileTest, ATruncatedOrLongerFileIsRefusedAtEveryLength) {
  write();
  const std::string good = read_file(path());
  for (std::size_t size = 0; size < good.size(); ++size) {
    put("bad.rows", good.substr(0, size));
    EXPECT_NE(refusal("bad.rows"), "") << size;
  }
  put("bad.rows", good + "x");
  EXPECT_NE(refusal("bad.rows").find("checksum does not match"), std::string::npos);
  EXPECT_EQ(refusal(), "");
}

TEST_F(RowsFileTest, LengthsThatNoFileHasAreRefusedWithoutMemoryForThem) {
  put("bad.rows", "paceline rows 1\n\x01" + std::string(3, '\0') + std::string(8, '\x7f') + "x");
  EXPECT_NE(refusal("bad.rows").find("truncated"), std::string::npos);
}

TEST_F(RowsFileTest, FilesOfOthersAreRefusedWithTheReason) {
  EXPECT_NE(refusal("none").find("it is not there"), std::string::npos);
  EXPECT_NE(refusal("").find("it is not a file"), std::string::npos);
  put("text", "something else altogether");
  EXPECT_NE(refusal("text").find("does not hold rows"), std::string::npos);
  put("later", "paceline rows 2\n and more");
  EXPECT_NE(refusal("later").find("use a newer paceline"), std::string::npos);
}

TEST_F(RowsFileTest, WhatWasNotPublishedIsNotThere) {
  {
    RowsFileWriter writer(path());
    writer.append("first", "content");
  }
  EXPECT_TRUE(names().empty());
}

// ---- beside checkpoints

TEST_F(RowsFileTest, ACheckpointKnowsItsRowsAndTheyGoTogether) {
  for (const std::int64_t step : {3, 5, 9}) save(2, step);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000005.ckpt", "step-000000005.rows", "step-000000009.ckpt",
                                               "step-000000009.rows"}));
  const auto newest = CheckpointFiles(folder_, 2).load_latest(nullptr);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->rows, path("step-000000009.rows"));
  EXPECT_EQ(RowsFileReader(newest->rows).next()->content, "9");
}

TEST_F(RowsFileTest, ACheckpointWithoutRowsHasNone) {
  CheckpointFiles(folder_, 2).save(4, {{"step", 4}}, {});
  EXPECT_EQ(CheckpointFiles(folder_, 2).load_latest(nullptr)->rows, "");
}

TEST_F(RowsFileTest, ACheckpointWhoseRowsAreDamagedMissingOrOthersIsNamedAndTheOneBeforeIsTaken) {
  const std::string newest = "step-000000002.rows";
  const auto taken = [&](const char* says) {
    std::string refused;
    const auto found =
        CheckpointFiles(folder_, 2).load_latest([&](const std::string& sentence) { refused = sentence; });
    EXPECT_NE(refused.find(path("step-000000002.ckpt")), std::string::npos) << refused;
    EXPECT_NE(refused.find(says), std::string::npos) << refused;
    return found ? found->step : -1;
  };
  save(2, 1);
  save(2, 2);
  const std::string good = read_file(path(newest));
  std::string bad = good;
  bad[bad.size() / 2] ^= 1;
  put(newest, bad);
  EXPECT_EQ(taken("damaged"), 1);
  fs::remove(path(newest));
  EXPECT_EQ(taken("it is not there"), 1);
  fs::copy(path("step-000000001.rows"), path(newest));
  EXPECT_EQ(taken("is of another checkpoint"), 1);
}

TEST_F(RowsFileTest, RowsWhoseCheckpointNeverCameAreRemovedByTheNext) {
  put("step-000000007.rows", "rows");
  put("step-000000008.rows.tmp-12-0", "half");
  put("mine.rows", "not ours");
  save(2, 9);
  EXPECT_EQ(names(), (std::vector<std::string>{"mine.rows", "step-000000009.ckpt", "step-000000009.rows"}));
}

}  // namespace
}  // namespace paceline
