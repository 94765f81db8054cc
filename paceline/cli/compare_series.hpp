// The runs of a comparison: which are there, which are still to be made, and making them, each as a `paceline train` of
// its own. One thread owns it.
//
// OUT/NAME/seed-S is the run folder of plan NAME with seed S, OUT/NAME/seed-S.json the words that it was started with.
// A folder that is complete with the same words is a result; one that is not is made anew, and one with other words is
// refused.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/compare_plans.hpp"
#include "paceline/record/compare_runs.hpp"

namespace paceline {

struct CompareSeries {
  std::string out;
  std::vector<PlanLine> plans;
  int seeds = 1;
  std::string program;  // paceline itself
};

// Error{invalid} if a folder of it holds something else.
void check_folders(const CompareSeries& series);

struct SeriesResult {
  std::vector<ComparedPlan> plans;  // with the runs that are complete or failed
  int signal = 0;                   // that ended it early; 0: none has
};

// Seed 1 of all plans, then seed 2, … `tell` gets a line about each run, when it is known.
SeriesResult run_series(const CompareSeries& series, const std::function<void(const std::string&)>& tell);

}  // namespace paceline
