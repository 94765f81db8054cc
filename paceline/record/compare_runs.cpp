#include "paceline/record/compare_runs.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "paceline/record/atomic_file.hpp"

namespace paceline {
namespace {

using nlohmann::json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double figure(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return kUnknown;
  return object[key].get<double>();
}

RunPoint point_of(const EpochMetrics& epoch) {
  return {.seconds = epoch.seconds,
          .epochs = static_cast<double>(epoch.epoch),
          .bytes = static_cast<double>(epoch.bytes_sent),
          .loss = epoch.test_loss,
          .accuracy = epoch.score() == Score::rmse ? kUnknown : epoch.test_accuracy,
          .rmse = epoch.test_rmse.value_or(kUnknown),
          .driving_loss = epoch.valid_loss.value_or(epoch.test_loss),
          .driving_accuracy = epoch.valid_accuracy.value_or(epoch.test_accuracy)};
}

// Of a run that stopped within an epoch, by --steps say.
std::optional<RunPoint> end_within_epoch(const ComparedRun& run) {
  const EpochMetrics* last = run.epochs.empty() ? nullptr : &run.epochs.back();
  const double step = figure(run.final, "step");
  if (!(step > 0) || (last != nullptr && step <= static_cast<double>(last->step))) return {};
  // A held-out part is looked at when an epoch ends, not here.
  const bool held_out = last != nullptr && (last->valid_loss || last->valid_accuracy);
  const double loss = figure(run.final, "test_loss"), rmse = figure(run.final, "test_rmse");
  const double accuracy = std::isfinite(rmse) ? kUnknown : figure(run.final, "test_accuracy");
  return RunPoint{.seconds = figure(run.final, "seconds"),
                  .epochs = last == nullptr ? kUnknown : step * last->epoch / static_cast<double>(last->step),
                  .bytes = figure(run.final, "bytes_sent"),
                  .loss = loss,
                  .accuracy = accuracy,
                  .rmse = rmse,
                  .driving_loss = held_out ? kUnknown : loss,
                  .driving_accuracy = held_out ? kUnknown : accuracy};
}

bool is_interrupted(const json& final) {
  const auto reason = final.find("stop_reason");
  return reason == final.end() || !reason->is_string() || reason->get<std::string>().starts_with("interrupted");
}

}  // namespace

std::vector<RunPoint> points_of(const ComparedRun& run) {
  std::vector<RunPoint> points;
  for (const EpochMetrics& epoch : run.epochs) points.push_back(point_of(epoch));
  if (const auto end = end_within_epoch(run)) points.push_back(*end);
  return points;
}

Score goal_of(const std::vector<ComparedPlan>& plans) {
  for (const ComparedPlan& plan : plans) {
    for (const ComparedRun& run : plan.runs) {
      const std::vector<RunPoint> points = points_of(run);
      if (std::any_of(points.begin(), points.end(), [](const RunPoint& point) { return std::isfinite(point.rmse); }))
        return Score::rmse;
    }
  }
  return Score::accuracy;
}

std::optional<ComparedRun> read_complete_run(const std::string& folder, std::uint64_t seed) try {
  const std::string path = folder + "/metrics.jsonl";
  if (!std::filesystem::is_regular_file(path)) return {};
  ComparedRun run{.seed = seed};
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line, nullptr, false);
    if (record.is_object() && record.contains("final")) {
      run.final = record;
    } else {
      run.epochs.push_back(epoch_metrics_from(record));
    }
  }
  if (!run.final.is_object() || is_interrupted(run.final)) return {};
  return run;
} catch (const Error& error) {
  if (error.code() != Code::invalid) throw;
  return {};
}

}  // namespace paceline
