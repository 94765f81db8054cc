#include "paceline/record/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline {
namespace {

using nlohmann::json;

WorkerTime worker(Rank rank, const std::string& host) {
  WorkerTime time = {.rank = rank, .host = host};
  double seconds = 1;
  for (const Activity activity : kStepActivities) time.in(activity) = seconds++;
  return time;
}

EpochMetrics sample() {
  return {.epoch = 2,
          .step = 938,
          .seconds = 41.25,
          .loss = 0.2931,
          .train_accuracy = 0.894,
          .valid_loss = 0.31,
          .valid_accuracy = 0.889,
          .test_loss = 0.3,
          .test_accuracy = 0.887,
          .test_rmse = 1.25,
          .samples_per_s = 1834.5,
          .wait_share = 0.021,
          .bytes_sent = std::numeric_limits<std::uint64_t>::max(),
          .learning_rate = 1e-3,
          .workers = {worker(0, "a"), worker(1, "b \"quoted\" <é>")}};
}

json through_text(const nlohmann::ordered_json& value) { return json::parse(value.dump()); }

std::string error_of(const json& value) {
  try {
    epoch_metrics_from(value);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "no error";
}

TEST(WorkerTime, TheWaitShareCountsOnlyTheActivitiesOfAStep) {
  WorkerTime time = worker(0, "a");
  time.in(Activity::evaluate) = 100;
  time.in(Activity::reduction) = 100;
  EXPECT_DOUBLE_EQ(time.total(), 15);
  EXPECT_DOUBLE_EQ(time.wait_share(), 4.0 / 15);
  EXPECT_EQ(WorkerTime{}.wait_share(), 0);
}

TEST(EpochMetrics, SurviveTheWayThroughJson) {
  const nlohmann::ordered_json written = to_json(sample());
  const EpochMetrics read = epoch_metrics_from(through_text(written));
  EXPECT_EQ(to_json(read), written);
  EXPECT_EQ(read.bytes_sent, sample().bytes_sent);
  ASSERT_EQ(read.workers.size(), 2u);
  EXPECT_EQ(read.workers[1].host, sample().workers[1].host);
  EXPECT_EQ(read.workers[1].seconds, sample().workers[1].seconds);
}

TEST(EpochMetrics, KeysComeInTheOrderThatPeopleRead) {
  const std::string text = to_json(sample()).dump();
  EXPECT_EQ(text.find(R"({"epoch":2,"step":938,"seconds":41.25,"loss":0.2931,"train_accuracy":0.894,"valid_loss":)"),
            0u);
  EXPECT_NE(text.find(R"({"rank":0,"host":"a","load":1.0,"compute":2.0,"communicate":3.0,"wait":4.0,"update":5.0})"),
            std::string::npos);
}

TEST(EpochMetrics, ARunWithoutValidationHasNoKeysForIt) {
  EpochMetrics metrics = sample();
  metrics.valid_loss.reset();
  metrics.valid_accuracy.reset();
  const json written = through_text(to_json(metrics));
  EXPECT_FALSE(written.contains("valid_loss"));
  EXPECT_FALSE(epoch_metrics_from(written).valid_accuracy.has_value());
}

TEST(EpochMetrics, BytesBetweenHostsAndSitesAreThoseOfRunsThatHaveSome) {
  EpochMetrics metrics = sample();
  EXPECT_FALSE(through_text(to_json(metrics)).contains("bytes_between_hosts"));
  EXPECT_FALSE(epoch_metrics_from(through_text(to_json(metrics))).bytes_between_sites.has_value());
  metrics.bytes_between_hosts = 12;
  metrics.bytes_between_sites = 7;
  json written = through_text(to_json(metrics));
  EXPECT_EQ(epoch_metrics_from(written).bytes_between_hosts, 12u);
  EXPECT_EQ(epoch_metrics_from(written).bytes_between_sites, 7u);
  written["bytes_between_sites"] = "many";
  EXPECT_NE(error_of(written).find("\"bytes_between_sites\""), std::string::npos);
}

TEST(EpochMetrics, LinesOfEarlierVersionsHaveNoRmse) {
  EpochMetrics metrics = sample();
  EXPECT_EQ(epoch_metrics_from(through_text(to_json(metrics))).test_rmse, 1.25);
  EXPECT_EQ(metrics.score(), Score::rmse);
  metrics.test_rmse.reset();
  const json written = through_text(to_json(metrics));
  EXPECT_FALSE(written.contains("test_rmse"));
  EXPECT_EQ(epoch_metrics_from(written).score(), Score::accuracy);
}

TEST(EpochMetrics, ALossThatIsNotANumberIsNullAndComesBack) {
  EpochMetrics metrics = sample();
  metrics.loss = std::nan("");
  metrics.valid_loss = std::nan("");
  const json written = through_text(to_json(metrics));
  EXPECT_TRUE(written["loss"].is_null());
  EXPECT_TRUE(std::isnan(epoch_metrics_from(written).loss));
  EXPECT_TRUE(std::isnan(*epoch_metrics_from(written).valid_loss));
}

TEST(EpochMetrics, EveryKeyThatIsMissingOrWrongIsNamed) {
  const json good = through_text(to_json(sample()));
  for (const auto& [key, value] : good.items()) {
    json wrong = good;
    wrong[key] = json::object();
    EXPECT_NE(error_of(wrong).find("\"" + key + "\""), std::string::npos) << error_of(wrong);
    if (key.starts_with("valid") || key == "test_rmse") continue;
    json missing = good;
    missing.erase(key);
    EXPECT_NE(error_of(missing).find("no key \"" + key + "\""), std::string::npos) << error_of(missing);
  }
  EXPECT_EQ(error_of(json::array()), "a record of metrics is not a JSON object");
}

TEST(EpochMetrics, CountsThatDoNotFitAreRefused) {
  json record = through_text(to_json(sample()));
  record["epoch"] = std::int64_t{1} << 40;
  EXPECT_NE(error_of(record).find("\"epoch\""), std::string::npos);
  record = through_text(to_json(sample()));
  record["bytes_sent"] = -1;
  EXPECT_NE(error_of(record).find("\"bytes_sent\""), std::string::npos);
  record = through_text(to_json(sample()));
  record["step"] = 1.5;
  EXPECT_NE(error_of(record).find("\"step\""), std::string::npos);
}

TEST(StepPoint, SurvivesTheWayThroughJson) {
  const StepPoint point = {
      .step = 400, .seconds = 12.5, .loss = std::nan(""), .samples_per_s = 1800, .wait_shares = {0.25f, 0.1f}};
  const StepPoint read = step_point_from(through_text(to_json(point)));
  EXPECT_EQ(read.step, 400);
  EXPECT_EQ(read.seconds, 12.5);
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_EQ(read.wait_shares, point.wait_shares);
  EXPECT_THROW(step_point_from(json::object()), Error);
  EXPECT_THROW(step_point_from("text"), Error);
}

}  // namespace
}  // namespace paceline
