// Metrics: what a run says about each epoch and, more often but in fewer words, about its steps. Values that become one
// line of JSON each. JSON knows no NaN: it is written as null and read back as NaN.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/core/trace.hpp"

namespace paceline {

// The activities that follow each other within a step; together they are a worker's training time.
inline constexpr std::array kStepActivities = {Activity::load, Activity::compute, Activity::communicate, Activity::wait,
                                               Activity::update};

// Seconds that a worker spent in each Activity in one epoch. Only those of kStepActivities are written as JSON.
struct WorkerTime {
  Rank rank = 0;
  std::string host = {};
  std::array<double, 8> seconds{};  // by Activity

  double in(Activity activity) const { return seconds[static_cast<std::size_t>(activity)]; }
  double& in(Activity activity) { return seconds[static_cast<std::size_t>(activity)]; }
  double total() const;  // of kStepActivities
  // The part of total() that went into waiting for others; 0 where nothing was recorded.
  double wait_share() const;
};

// What a model is measured by: of classes the share that is right, of numbers how far off they are.
enum class Score { accuracy, rmse };

// How old what workers read from servers was, of all workers so far.
struct StalenessFigures {
  double mean = 0, variance = 0;  // of reads, in clocks
  std::int64_t max = 0;
  std::int64_t violations = 0;               // reads that broke the plan's bound
  std::vector<std::int64_t> histogram = {};  // of reads: see Staleness
  // In updates: what gradients had missed when servers applied them; where workers apply them, what reads lacked.
  double mean_missed = 0, variance_missed = 0;
  std::int64_t max_missed = 0;
};

struct EpochMetrics {
  int epoch = 0;
  std::int64_t step = 0;
  double seconds = 0;  // training time since the start of this run, without evaluation
  double loss = 0;
  double train_accuracy = 0;
  std::optional<double> valid_loss = {}, valid_accuracy = {};
  double test_loss = 0;
  double test_accuracy = 0;
  // Where a number is predicted: the root of the mean squared error. Accuracies mean nothing then.
  std::optional<double> test_rmse = {};
  std::optional<double> test_auc = {};  // of clicks: see ranking.hpp
  double samples_per_s = 0;
  double wait_share = 0;         // mean over workers
  std::uint64_t bytes_sent = 0;  // by all workers, so far
  // Of these, where there are several.
  std::optional<std::uint64_t> bytes_between_hosts = {}, bytes_between_sites = {};
  double learning_rate = 0;
  std::optional<StalenessFigures> staleness = {};
  std::vector<WorkerTime> workers = {};

  Score score() const { return test_rmse ? Score::rmse : Score::accuracy; }
};

nlohmann::ordered_json to_json(const EpochMetrics& metrics);
// Error{invalid} that names the key which is missing or has the wrong type.
EpochMetrics epoch_metrics_from(const nlohmann::json& json);

// A point of the curves, every so many steps.
struct StepPoint {
  std::int64_t step = 0;
  double seconds = 0;
  double loss = 0;
  double samples_per_s = 0;
  std::vector<float> wait_shares = {};  // by rank
};

nlohmann::ordered_json to_json(const StepPoint& point);
StepPoint step_point_from(const nlohmann::json& json);  // Error{invalid}, as above

}  // namespace paceline
