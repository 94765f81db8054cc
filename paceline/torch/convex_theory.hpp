// --theory: what is proved about SGD with stale reads (sync/theory.hpp), beside what a run did. For softmax regression,
// whose loss is convex. What the bounds need is computed from the data, nothing is assumed:
// - The search space is the ball of radius R around zero: any two of its points have |x - x'|^2 / 2 <= 2 R^2 = F^2.
// - The gradient of an example's loss is (p - e)(x, 1)^T, and |p - e| <= sqrt(2): L = sqrt(2) max |(x, 1)|.
// - The best fixed point of the ball minimizes loss + multiplier |w|^2 / 2 for the multiplier with which it lies on the
//   ball (the condition of Karush, Kuhn and Tucker; found by halving), or for 1e-8, if it then lies inside: that
//   changes the loss by less than 1e-8 R^2. Each minimum is found by L-BFGS and, close to it, by Newton's
//   method with conjugate gradients, in f64.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/data/dataset.hpp"
#include "paceline/sync/policy.hpp"
#include "paceline/sync/theory.hpp"

namespace paceline {

struct ConvexStudy {
  ConvexProblem problem = {};
  double radius = 0;      // of the ball
  double best_loss = 0;   // of the best fixed point, mean over all examples
  double best_norm = 0;   // its distance from zero
  double multiplier = 0;  // 1e-8: it lies inside
  double steepness = 0;   // the largest coordinate of the gradient where the search ended; 1e-10 unless that cannot be
};
// One thread, a matrix of all examples in f64. Throws Error{invalid} where there are no classes.
ConvexStudy study_convex(const Dataset& data, const Normalisation& normalisation, double radius);

// How stale reads may be in steps: S; 0 for bsp. Of policies that have a bound.
int staleness_bound(const Policy& policy);

// The rate of a run's first step, to be divided by the root of the step's number: with P workers whose changes count
// 1/P, the t-th update then has the step size scale / sqrt(t) of the theorem.
double theory_rate(const ConvexStudy& study, int bound, int workers);

struct TheoryFigures {
  ConvexStudy study;
  StaleRun run = {};
  double mean_loss = 0;  // of what was read, before each update
  double farthest = 0;   // from zero, of all that was read on this worker

  double regret() const { return mean_loss - study.best_loss; }
  bool inside() const { return farthest <= study.radius; }
  std::vector<std::string> lines() const;  // for a person
};
nlohmann::ordered_json to_json(const TheoryFigures& figures);

}  // namespace paceline
