#include "paceline/torch/convex_theory.hpp"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/torch/task.hpp"

namespace paceline {
namespace {

constexpr double kLeastMultiplier = 1e-8;
constexpr double kMostMultiplier = 1e3;    // with which the weights are next to nothing
constexpr double kTolerance = 1e-10;       // of the end point's gradient
constexpr double kSearchTolerance = 1e-9;  // while the multiplier is looked for
constexpr double kOnTheBall = 1e-6;        // of the radius
constexpr int kHalvings = 60;
constexpr double kSearchedTo = 1e-4;  // by L-BFGS
constexpr int kNewtonSteps = 50;
constexpr int kConjugateSteps = 2000;

// Softmax regression with everything in memory. The weights are (features + 1) x classes, the last row the biases.
class Regression {
 public:
  Regression(const Dataset& data, const Normalisation& normalisation) {
    std::vector<std::uint32_t> all(data.size());
    std::iota(all.begin(), all.end(), 0u);
    Batch batch;
    fill(batch, data, normalisation, all);
    const torch::Tensor inputs = inputs_of(batch, data.form()).flatten(1).to(torch::kDouble);
    inputs_ = torch::cat({inputs, torch::ones({inputs.size(0), 1}, torch::kDouble)}, 1);
    answers_ = answers_of(batch, data.form()).clone();
    weights_ = torch::zeros({inputs_.size(1), data.form().outputs()}, torch::kDouble).requires_grad_();
  }

  double longest_input() const { return inputs_.norm(2, 1).max().item<double>(); }
  double norm() const { return weights_.detach().norm().item<double>(); }
  double loss() const {
    const torch::NoGradGuard no_grad;
    return torch::cross_entropy_loss(inputs_.mm(weights_), answers_).item<double>();
  }

  // From where it stands. Returns the largest coordinate of the gradient at the end. The line search of L-BFGS compares
  // losses, which tell nothing more once they differ in their last bits; Newton's method, which looks at gradients
  // only, goes on from there.
  double minimize(double multiplier, double tolerance) {
    search(multiplier, std::max(tolerance, kSearchedTo));
    torch::Tensor slope = gradient(multiplier);
    for (int step = 0; step < kNewtonSteps && largest(slope) > tolerance; ++step) {
      if (!go_along(newton_direction(slope, multiplier), multiplier, slope)) break;
    }
    return largest(slope);
  }

 private:
  static double largest(const torch::Tensor& slope) { return slope.abs().max().item<double>(); }

  void search(double multiplier, double tolerance) {
    torch::optim::LBFGS search({weights_}, torch::optim::LBFGSOptions(1)
                                               .max_iter(5000)
                                               .max_eval(10'000)
                                               .tolerance_grad(tolerance)
                                               .tolerance_change(1e-300)
                                               .history_size(20)
                                               .line_search_fn("strong_wolfe"));
    search.step([&] {
      search.zero_grad();
      torch::Tensor value =
          torch::cross_entropy_loss(inputs_.mm(weights_), answers_) + multiplier / 2 * weights_.square().sum();
      value.backward();
      return value;
    });
  }

  torch::Tensor gradient(double multiplier) const {
    const torch::NoGradGuard no_grad;
    const torch::Tensor wrong = torch::softmax(inputs_.mm(weights_), 1) - torch::one_hot(answers_, weights_.size(1));
    return inputs_.t().mm(wrong) / static_cast<double>(inputs_.size(0)) + multiplier * weights_;
  }

  // Solves H d = -slope by conjugate gradients. H v = X^T (P (U - rowsum(P U))) / n + multiplier v, with U = X v.
  torch::Tensor newton_direction(const torch::Tensor& slope, double multiplier) const {
    const torch::NoGradGuard no_grad;
    const torch::Tensor likely = torch::softmax(inputs_.mm(weights_), 1);
    const auto curve = [&](const torch::Tensor& v) {
      const torch::Tensor along = inputs_.mm(v);
      const torch::Tensor bent = likely * (along - (likely * along).sum(1, true));
      return inputs_.t().mm(bent) / static_cast<double>(inputs_.size(0)) + multiplier * v;
    };
    torch::Tensor direction = torch::zeros_like(slope), rest = -slope, way = rest.clone();
    double squares = rest.square().sum().item<double>();
    const double enough = 1e-12 * squares;
    for (int i = 0; i < kConjugateSteps && squares > enough; ++i) {
      const torch::Tensor curved = curve(way);
      const double length = squares / (way * curved).sum().item<double>();
      direction += length * way;
      rest -= length * curved;
      const double before = std::exchange(squares, rest.square().sum().item<double>());
      way = rest + squares / before * way;
    }
    return direction;
  }

  // The longest of the steps 1, 1/2, 1/4... with which the gradient becomes smaller; false if none is there.
  bool go_along(const torch::Tensor& direction, double multiplier, torch::Tensor& slope) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor start = weights_.detach().clone();
    const double steep = slope.norm().item<double>();
    for (double length = 1; length > 1e-6; length /= 2) {
      weights_.copy_(start + length * direction);
      slope = gradient(multiplier);
      if (slope.norm().item<double>() < steep) return true;
    }
    weights_.copy_(start);
    slope = gradient(multiplier);
    return false;
  }

  torch::Tensor inputs_;
  torch::Tensor answers_;
  torch::Tensor weights_;
};

// The multiplier with which the minimum lies on the ball. The norm falls as the multiplier grows.
double multiplier_for(Regression& regression, double radius) {
  double outside = kMostMultiplier, inside = kMostMultiplier;
  while (regression.norm() <= radius) {
    inside = outside;
    if (inside == kLeastMultiplier) return inside;
    outside = std::max(kLeastMultiplier, inside / 10);
    regression.minimize(outside, kSearchTolerance);
  }
  double low = std::log(outside), high = std::log(inside);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    regression.minimize(std::exp(middle), kSearchTolerance);
    const double off = regression.norm() - radius;
    if (std::abs(off) <= kOnTheBall * radius) return std::exp(middle);
    (off > 0 ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

}  // namespace

ConvexStudy study_convex(const Dataset& data, const Normalisation& normalisation, double radius) {
  if (data.form().kind == Kind::text || data.classes() == 0)
    throw Error(Code::invalid, "--theory is about softmax regression, and this data has no classes");
  Regression regression(data, normalisation);
  ConvexStudy study{.radius = radius};
  study.problem = {.radius = std::sqrt(2.0) * radius, .slope = std::sqrt(2.0) * regression.longest_input()};
  study.multiplier = multiplier_for(regression, radius);
  study.steepness = regression.minimize(study.multiplier, kTolerance);
  study.best_loss = regression.loss();
  study.best_norm = regression.norm();
  return study;
}

int staleness_bound(const Policy& policy) { return policy.kind == Policy::Kind::bsp ? 0 : policy.number; }

double theory_rate(const ConvexStudy& study, int bound, int workers) {
  return ssp_scale(study.problem, bound, workers) * std::sqrt(static_cast<double>(workers));
}

std::vector<std::string> TheoryFigures::lines() const {
  const double root = std::sqrt(static_cast<double>(run.updates));
  std::vector<std::string> lines = {
      fmt::format(
          "theory: in the ball of radius {:g} F is {:.4g}, L {:.4g}; its best point has loss {:.6f} at distance {:.4g}",
          study.radius, study.problem.radius, study.problem.slope, study.best_loss, study.best_norm),
      fmt::format(
          "theory: {} updates of {} workers, bound {}: the regret is {:.4f} an update, proved is at most {:.4g} "
          "(Ho et al. 2013)",
          run.updates, run.workers, run.bound, regret(),
          ssp_regret_bound(study.problem, run.bound, run.workers, run.updates)),
      fmt::format(
          "theory: staleness {:.3g} updates, variance {:.3g}: a mean penalty of {:.4g} in {:.4g} expected at most, "
          "a variance penalty of {:.3g} (Dai et al. 2015)",
          run.mean, run.variance, mean_penalty(run) / root, expected_regret(run), variance_penalty(run))};
  if (!inside())
    lines.push_back(
        fmt::format("theory: training left the ball (distance {:.4g}), outside which nothing is proved", farthest));
  if (study.steepness > kTolerance)
    lines.push_back(
        fmt::format("theory: the search for the best point ended at a gradient of {:.1e}", study.steepness));
  return lines;
}

nlohmann::ordered_json to_json(const TheoryFigures& figures) {
  const ConvexStudy& study = figures.study;
  const StaleRun& run = figures.run;
  return {{"radius", study.radius},
          {"F", study.problem.radius},
          {"L", study.problem.slope},
          {"scale", run.scale},
          {"best_loss", study.best_loss},
          {"best_norm", study.best_norm},
          {"steepness", study.steepness},
          {"updates", run.updates},
          {"bound", run.bound},
          {"regret", figures.regret()},
          {"regret_bound", ssp_regret_bound(study.problem, run.bound, run.workers, run.updates)},
          {"staleness_mean", run.mean},
          {"staleness_variance", run.variance},
          {"mean_penalty", mean_penalty(run) / std::sqrt(static_cast<double>(run.updates))},
          {"expected_regret", expected_regret(run)},
          {"variance_penalty", variance_penalty(run)},
          {"farthest", figures.farthest},
          {"inside", figures.inside()}};
}

}  // namespace paceline
