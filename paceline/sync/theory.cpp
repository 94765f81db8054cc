#include "paceline/sync/theory.hpp"

#include <cmath>

#include "paceline/core/check.hpp"

namespace paceline {

double ssp_scale(const ConvexProblem& problem, int bound, int workers) {
  return problem.radius / (problem.slope * std::sqrt(2.0 * (bound + 1.0) * workers));
}

double ssp_step(double scale, std::int64_t update) {
  CHECK(update >= 1, "updates are counted from 1");
  return scale / std::sqrt(static_cast<double>(update));
}

double ssp_regret_bound(const ConvexProblem& problem, int bound, int workers, std::int64_t updates) {
  CHECK(updates >= 1, "a regret is that of at least one update");
  return 4 * problem.radius * problem.slope * std::sqrt(2.0 * (bound + 1.0) * workers / static_cast<double>(updates));
}

double mean_penalty(const StaleRun& run) { return 2 * run.scale * run.problem.slope * run.problem.slope * run.mean; }

double expected_regret(const StaleRun& run) {
  const double slopes = run.scale * run.problem.slope * run.problem.slope;
  const double distance = run.problem.radius * run.problem.radius / run.scale;
  return (slopes + distance + mean_penalty(run)) / std::sqrt(static_cast<double>(run.updates));
}

double variance_penalty(const StaleRun& run) {
  const double updates = static_cast<double>(run.updates);
  const double slopes = run.scale * run.problem.slope * run.problem.slope;
  return 2 * slopes * slopes * (std::log(updates) + 1) / updates * run.variance;
}

double excess_probability(const StaleRun& run, double excess) {
  if (excess <= 0) return 1;
  const double slopes = run.scale * run.problem.slope * run.problem.slope;
  const double greatest = 2.0 / 3.0 * slopes * (2.0 * run.bound + 1) * run.workers * excess;
  return std::exp(-static_cast<double>(run.updates) * excess * excess / (variance_penalty(run) + greatest));
}

}  // namespace paceline
