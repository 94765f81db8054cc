#include "paceline/record/trace_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace paceline {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

class TraceFile : public testing::Test {
 protected:
  TraceFile() : folder_(std::filesystem::temp_directory_path() / ("trace_file_test." + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TraceFile() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return (folder_ / "trace.json").string(); }
  json written(const std::vector<RankTrace>& ranks) const {
    write_trace(path(), ranks);
    std::ifstream file(path());
    return json::parse(file);
  }

  std::filesystem::path folder_;
};

TraceEvent event(Duration start, Duration length, Activity activity, std::int32_t bucket = -1) {
  return {.start = TimePoint(100s) + start, .length = length, .step = 7, .bucket = bucket, .activity = activity};
}

std::vector<json> complete_events(const json& trace, Rank rank) {
  std::vector<json> events;
  for (const json& entry : trace.at("traceEvents")) {
    if (entry.at("ph") == "X" && entry.at("pid") == rank) events.push_back(entry);
  }
  return events;
}

std::string metadata(const json& trace, const std::string& what, Rank rank, int track) {
  for (const json& entry : trace.at("traceEvents")) {
    if (entry.at("ph") == "M" && entry.at("name") == what && entry.at("pid") == rank && entry.at("tid") == track) {
      return entry.at("args").at("name");
    }
  }
  return "";
}

TEST_F(TraceFile, HoldsAllRanksOnOneAxisInOrder) {
  const json trace = written({{0, "a", 11, {event(5ms, 2ms, Activity::compute), event(3ms, 1500ns, Activity::load)}},
                              {1, "b", 12, {event(2ms, 1ms, Activity::wait, 3)}}});
  const auto first = complete_events(trace, 0), second = complete_events(trace, 1);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(first[0]["name"], "load");
  EXPECT_EQ(first[0]["ts"], 1000.0);
  EXPECT_EQ(first[0]["dur"], 1.5);
  EXPECT_EQ(first[1]["ts"], 3000.0);
  EXPECT_EQ(second[0]["ts"], 0.0);
  EXPECT_EQ(second[0]["args"], json({{"step", 7}, {"bucket", 3}}));
}

TEST_F(TraceFile, NamesProcessesAndTracksWhateverTheHostIsCalled) {
  const std::string host = "a\"b\\c\n</script>é";
  const json trace = written({{4, host, 123, {event(0ms, 1ms, Activity::reduction, 0)}}, {5, "\xff\xfe", 1, {}}});
  EXPECT_EQ(metadata(trace, "process_name", 4, 0), "rank 4 · " + host + " · pid 123");
  EXPECT_EQ(metadata(trace, "thread_name", 4, 0), "step");
  EXPECT_EQ(metadata(trace, "thread_name", 4, 1), "buckets");
  EXPECT_EQ(metadata(trace, "process_name", 5, 0), "rank 5 · \xEF\xBF\xBD\xEF\xBF\xBD · pid 1");
}

TEST_F(TraceFile, ReductionsThatOverlapHaveTracksOfTheirOwn) {
  RankTrace rank = {0, "a", 1, {event(0ms, 20ms, Activity::compute)}};
  for (int bucket = 0; bucket < 6; ++bucket) {
    rank.events.push_back(event(bucket * 2ms, 5ms, Activity::reduction, bucket));
  }
  std::map<int, double> ends;
  std::set<int> tracks;
  for (const json& entry : complete_events(written({rank}), 0)) {
    const int track = entry.at("tid");
    EXPECT_EQ(track == 0, entry.at("name") == "compute");
    EXPECT_GE(entry.at("ts"), ends[track]);
    ends[track] = entry.at("ts").get<double>() + entry.at("dur").get<double>();
    tracks.insert(track);
  }
  EXPECT_EQ(tracks, (std::set<int>{0, 1, 2, 3}));
}

TEST_F(TraceFile, WithoutEventsIsStillATrace) {
  EXPECT_TRUE(written({}).at("traceEvents").empty());
  EXPECT_EQ(written({{0, "a", 1, {}}}).at("traceEvents").size(), 3u);
}

TEST_F(TraceFile, AnErrorNamesTheFileAndLeavesNothingBehind) {
  const std::string missing = (folder_ / "no" / "trace.json").string();
  try {
    write_trace(missing, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::system);
    EXPECT_NE(std::string(error.what()).find(missing), std::string::npos);
  }
}

TEST_F(TraceFile, AFullDiskIsAnErrorAndKeepsTheOldFile) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  written({});
  std::filesystem::create_symlink("/dev/full", path() + ".part");
  try {
    write_trace(path(), {{0, "a", 1, {event(0ms, 1ms, Activity::compute)}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(std::filesystem::exists(path()));
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
}

}  // namespace
}  // namespace paceline
