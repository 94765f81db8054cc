// What is proved about SGD whose reads are stale, as numbers to set beside what a run has measured.
//
// Setting of both results: f is the sum of convex f_t, whose slopes are at most L; any two points x, x' of the search
// space have |x - x'|^2 / 2 <= F^2; the step of update t is scale / sqrt(t); P workers do T updates together, counted
// one by one. The regret is the sum of f_t(what was read for update t) - f_t(the best fixed point); divided by T it
// bounds how far the mean loss is from the best.
//
// Values and pure functions. Arguments are positive; staleness, its mean and its variance may be 0.
#pragma once

#include <cstdint>

namespace paceline {

struct ConvexProblem {
  double radius;  // F
  double slope;   // L
};

// Ho et al. 2013, theorem 1: under ssp:s, for any order of events, with scale F / (L sqrt(2 (s + 1) P)),
//   regret / T <= 4 F L sqrt(2 (s + 1) P / T).
double ssp_scale(const ConvexProblem& problem, int bound, int workers);
double ssp_step(double scale, std::int64_t update);  // scale / sqrt(update), updates from 1
double ssp_regret_bound(const ConvexProblem& problem, int bound, int workers, std::int64_t updates);

// Dai et al. 2015, theorem on SGD under SSP, in probability. The staleness of a read is the number of updates in which
// it differs from the sequence that the proof goes by; it has mean mu and variance var, and never passes (2 s + 1) P.
// With any scale,
//   Pr[ regret / T - (scale L^2 + F^2 / scale + 2 scale L^2 mu) / sqrt(T) >= excess ]
//     <= exp( -T excess^2 / (2 v var + 2/3 scale L^2 (2 s + 1) P excess) ),   v = scale^2 L^4 (ln T + 1) / T.
// Why: the regret is at most the sum of step L^2 / 2, of (distance lost) / step, and of step L^2 (staleness). The first
// two sum to scale L^2 sqrt(T) and F^2 sqrt(T) / scale; the third has the mean 2 scale L^2 mu sqrt(T) at most, and
// Bernstein's inequality, which takes the staleness of different reads to be independent, bounds what goes beyond it.
struct StaleRun {
  ConvexProblem problem;
  double scale;
  double mean;           // of the staleness, in updates
  double variance;       // of the staleness, in updates squared
  int bound;             // s
  int workers;           // P
  std::int64_t updates;  // T
};

// 2 scale L^2 mu: what stale reads add to the mean regret, times sqrt(T). Grows with the mean staleness, not the bound.
double mean_penalty(const StaleRun& run);
// (scale L^2 + F^2 / scale + mean penalty) / sqrt(T): what regret / T passes by `excess` only with the probability
// below.
double expected_regret(const StaleRun& run);
// 2 v var: what the variance of staleness adds in the exponent's denominator.
double variance_penalty(const StaleRun& run);
// The bound above, at most 1.
double excess_probability(const StaleRun& run, double excess);

}  // namespace paceline
