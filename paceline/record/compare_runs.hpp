// The runs that `paceline compare` sets side by side: plans, each trained with several seeds, as their run folders
// tell.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "paceline/record/metrics.hpp"

namespace paceline {

struct ComparedRun {
  std::uint64_t seed = 0;
  std::vector<EpochMetrics> epochs = {};
  nlohmann::json final = {};  // the last line of metrics.jsonl; null without one
  std::string failure = {};   // why there is no result, as a sentence; empty: the run is complete
};

struct ComparedPlan {
  std::string name = {};
  std::string options = {};  // as given
  std::vector<ComparedRun> runs = {};
};

// A state of the model that was evaluated: at the end of an epoch, or where a run stopped within one.
struct RunPoint {
  double seconds = 0;
  double epochs = 0;  // a fraction where a run stopped within one; NaN if it has not finished any
  double bytes = 0;
  double loss = 0;      // of the test set
  double accuracy = 0;  // likewise
  double rmse = 0;      // likewise; NaN where classes are learned
  // What --until looks at: those of the held-out part if there is one.
  double driving_loss = 0;
  double driving_accuracy = 0;
};

// In the order of time.
std::vector<RunPoint> points_of(const ComparedRun& run);

// rmse as soon as one run has one.
Score goal_of(const std::vector<ComparedPlan>& plans);

// What is in a run folder, if it is complete: a run that has ended by itself. Lines that cannot be read make it
// incomplete.
std::optional<ComparedRun> read_complete_run(const std::string& folder, std::uint64_t seed);

}  // namespace paceline
