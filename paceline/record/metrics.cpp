#include "paceline/record/metrics.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace paceline {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const json& field(const json& object, const char* key) {
  if (!object.is_object()) throw Error(Code::invalid, "a record of metrics is not a JSON object");
  const auto found = object.find(key);
  if (found == object.end()) throw Error(Code::invalid, fmt::format("a record of metrics has no key \"{}\"", key));
  return *found;
}

Error wrong_type(const char* key, const char* expected) {
  return Error(Code::invalid, fmt::format("a record of metrics: \"{}\" is not {}", key, expected));
}

double as_number(const json& value, const char* key) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) throw wrong_type(key, "a number");
  return value.get<double>();
}

double number(const json& object, const char* key) { return as_number(field(object, key), key); }

std::optional<double> optional_number(const json& object, const char* key) {
  if (!object.contains(key)) return {};
  return number(object, key);
}

// A count that does not fit in Integer is as wrong as a string: it must not wrap silently.
template <typename Integer>
Integer integer(const json& object, const char* key) {
  const json& value = field(object, key);
  if (value.is_number_unsigned() && std::in_range<Integer>(value.get<std::uint64_t>())) return value.get<Integer>();
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<Integer>(value.get<std::int64_t>())) {
    return value.get<Integer>();
  }
  throw wrong_type(key, "an integer in range");
}

std::string text(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_string()) throw wrong_type(key, "a string");
  return value.get<std::string>();
}

const json& array(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_array()) throw wrong_type(key, "an array");
  return value;
}

ordered_json worker_json(const WorkerTime& worker) {
  ordered_json record = {{"rank", worker.rank}, {"host", worker.host}};
  for (const Activity activity : kStepActivities) record[std::string(name(activity))] = worker.in(activity);
  return record;
}

WorkerTime worker_from(const json& object) {
  WorkerTime worker = {.rank = integer<Rank>(object, "rank"), .host = text(object, "host")};
  for (const Activity activity : kStepActivities) worker.in(activity) = number(object, name(activity).data());
  return worker;
}

ordered_json to_json(const StalenessFigures& figures) {
  return {{"mean", figures.mean},
          {"variance", figures.variance},
          {"max", figures.max},
          {"violations", figures.violations},
          {"histogram", figures.histogram},
          {"mean_missed", figures.mean_missed},
          {"variance_missed", figures.variance_missed},
          {"max_missed", figures.max_missed}};
}

StalenessFigures staleness_from(const json& object) {
  StalenessFigures figures = {.mean = number(object, "mean"),
                              .variance = number(object, "variance"),
                              .max = integer<std::int64_t>(object, "max"),
                              .violations = integer<std::int64_t>(object, "violations"),
                              .mean_missed = number(object, "mean_missed"),
                              .variance_missed = number(object, "variance_missed"),
                              .max_missed = integer<std::int64_t>(object, "max_missed")};
  for (const json& count : array(object, "histogram"))
    figures.histogram.push_back(static_cast<std::int64_t>(as_number(count, "histogram")));
  return figures;
}

}  // namespace

double WorkerTime::total() const {
  double sum = 0;
  for (const Activity activity : kStepActivities) sum += in(activity);
  return sum;
}

double WorkerTime::wait_share() const {
  const double all = total();
  return all > 0 ? in(Activity::wait) / all : 0;
}

ordered_json to_json(const EpochMetrics& metrics) {
  ordered_json record;
  record["epoch"] = metrics.epoch;
  record["step"] = metrics.step;
  record["seconds"] = metrics.seconds;
  record["loss"] = metrics.loss;
  record["train_accuracy"] = metrics.train_accuracy;
  if (metrics.valid_loss) record["valid_loss"] = *metrics.valid_loss;
  if (metrics.valid_accuracy) record["valid_accuracy"] = *metrics.valid_accuracy;
  record["test_loss"] = metrics.test_loss;
  record["test_accuracy"] = metrics.test_accuracy;
  if (metrics.test_rmse) record["test_rmse"] = *metrics.test_rmse;
  if (metrics.test_auc) record["test_auc"] = *metrics.test_auc;
  record["samples_per_s"] = metrics.samples_per_s;
  record["wait_share"] = metrics.wait_share;
  record["bytes_sent"] = metrics.bytes_sent;
  if (metrics.bytes_between_hosts) record["bytes_between_hosts"] = *metrics.bytes_between_hosts;
  if (metrics.bytes_between_sites) record["bytes_between_sites"] = *metrics.bytes_between_sites;
  record["learning_rate"] = metrics.learning_rate;
  if (metrics.staleness) record["staleness"] = to_json(*metrics.staleness);
  record["workers"] = ordered_json::array();
  for (const WorkerTime& worker : metrics.workers) record["workers"].push_back(worker_json(worker));
  return record;
}

EpochMetrics epoch_metrics_from(const json& object) {
  EpochMetrics metrics = {.epoch = integer<int>(object, "epoch"),
                          .step = integer<std::int64_t>(object, "step"),
                          .seconds = number(object, "seconds"),
                          .loss = number(object, "loss"),
                          .train_accuracy = number(object, "train_accuracy"),
                          .valid_loss = optional_number(object, "valid_loss"),
                          .valid_accuracy = optional_number(object, "valid_accuracy"),
                          .test_loss = number(object, "test_loss"),
                          .test_accuracy = number(object, "test_accuracy"),
                          .test_rmse = optional_number(object, "test_rmse"),
                          .test_auc = optional_number(object, "test_auc"),
                          .samples_per_s = number(object, "samples_per_s"),
                          .wait_share = number(object, "wait_share"),
                          .bytes_sent = integer<std::uint64_t>(object, "bytes_sent"),
                          .learning_rate = number(object, "learning_rate")};
  for (const auto& [key, member] : {std::pair{"bytes_between_hosts", &EpochMetrics::bytes_between_hosts},
                                    std::pair{"bytes_between_sites", &EpochMetrics::bytes_between_sites}}) {
    if (object.contains(key)) metrics.*member = integer<std::uint64_t>(object, key);
  }
  if (object.contains("staleness")) metrics.staleness = staleness_from(object["staleness"]);
  for (const json& worker : array(object, "workers")) metrics.workers.push_back(worker_from(worker));
  return metrics;
}

ordered_json to_json(const StepPoint& point) {
  ordered_json record;
  record["step"] = point.step;
  record["seconds"] = point.seconds;
  record["loss"] = point.loss;
  record["samples_per_s"] = point.samples_per_s;
  record["wait_shares"] = point.wait_shares;
  return record;
}

StepPoint step_point_from(const json& object) {
  StepPoint point = {.step = integer<std::int64_t>(object, "step"),
                     .seconds = number(object, "seconds"),
                     .loss = number(object, "loss"),
                     .samples_per_s = number(object, "samples_per_s")};
  for (const json& share : array(object, "wait_shares")) {
    point.wait_shares.push_back(static_cast<float>(as_number(share, "wait_shares")));
  }
  return point;
}

}  // namespace paceline
