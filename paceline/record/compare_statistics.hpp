// What several seeds say together about a plan, and which plan wins. Pure functions.
//
// Note [Time to the target]. A run is evaluated when an epoch ends. Between the last evaluation that misses the target
// and the first that meets it, the way there is taken as linear in the measure, and time, epochs and bytes are
// interpolated by the same fraction. A first evaluation that meets it counts as it is: nothing is known of what was
// before it. What is looked at is the held-out part, or the test set of a run without one, as --until does.
//
// Note [Who wins]. Only a plan that reached the target with each of its seeds can win, the one with the smallest mean
// time. Two plans differ if their intervals, mean ± one standard deviation, do not overlap; with fewer than two seeds
// there is no interval and the sentence says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/record/compare_runs.hpp"

namespace paceline {

// Of the values that are numbers.
struct Spread {
  int count = 0;
  double mean = 0;       // NaN without a value, as the next two
  double deviation = 0;  // the sample's standard deviation; NaN below two values
  double least = 0, most = 0;

  bool has_interval() const { return count >= 2; }
};
Spread spread_of(const std::vector<double>& values);
// mean ± deviation of both; false where one has no interval.
bool overlap(const Spread& a, const Spread& b);

struct CompareTarget {
  enum class Metric { accuracy, loss, rmse };
  Metric metric = Metric::accuracy;
  double value = 0;

  std::string text() const;  // "accuracy=0.85"
};
CompareTarget parse_compare_target(const std::string& text);  // Error{invalid}

struct Reached {
  double seconds = 0;
  double epochs = 0;
  double bytes = 0;
};
// See Note [Time to the target]; nullopt: the run did not get there.
std::optional<Reached> reach(const ComparedRun& run, const CompareTarget& target);

struct CompareOptions {
  std::optional<CompareTarget> target = {};
  double price = 0;  // of a worker for an hour; 0: not given
};

struct PlanFigures {
  std::string name = {};
  int complete = 0;  // runs
  int failed = 0;
  Spread accuracy = {}, rmse = {}, loss = {}, seconds = {}, samples_per_s = {}, bytes = {};  // at the end
  int reached = 0;                                        // of the complete runs, the target
  Spread seconds_to = {}, epochs_to = {}, bytes_to = {};  // of those that reached it
  Spread cost = {};                                       // to the target if there is one, of the whole run otherwise
};
std::vector<PlanFigures> figures_of(const std::vector<ComparedPlan>& plans, const CompareOptions& options);

// Who was first at the target; without one, who ended best. See Note [Who wins].
std::string verdict_of(const std::vector<PlanFigures>& plans, const CompareOptions& options, Score score);

// The k-th evaluation of a plan's seeds: where they were on the mean, and how far apart.
struct BandPoint {
  double seconds = 0;
  double epochs = 0;
  double bytes = 0;
  Spread loss = {}, accuracy = {}, rmse = {};
};
// Over the seeds that got that far.
std::vector<BandPoint> band_of(const ComparedPlan& plan);

}  // namespace paceline
