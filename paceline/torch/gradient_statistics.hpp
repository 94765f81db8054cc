// GradientStatistics: how much of the gradient is noise, and how large a batch that makes worth while. Running, from
// the parts in which a step's batch goes through the models of all workers; a worker's whole batch is one part if it is
// no larger than a part may be.
//
// Part p of T has m_p examples and the mean gradient g_p, the step G examples and the mean g; C is the covariance of an
// example's gradient, and L' the true gradient. From E[m_p |g_p|^2] = tr C + m_p |L'|^2 follow estimates without bias:
//   tr C   = (sum over p of m_p |g_p|^2 - G |g|^2) / (T - 1)
//   |L'|^2 = |g|^2 - tr C / G
// For parts of one size these are those of McCandlish, Kaplan, Amodei et al. 2018 ("An Empirical Model of Large-Batch
// Training", appendix A) with the batch sizes m and G. Both are averaged over steps with exponential weights before
// they are divided, as there: a ratio of means is far less off than a mean of ratios.
//   noise scale   B_simple = tr C / |L'|^2: below it, twice the batch is worth nearly twice the steps
//   diversity     of n examples (Yin, Pananjady, Lam, Papailiopoulos, Ramchandran & Bartlett 2018): the sum of their
//                 gradients' squared norms over the squared norm of the sum, here (tr C + |L'|^2) / (n |L'|^2). Up to a
//                 batch of n times it, batches lose nothing to their size; that bound is B_simple + 1.
//
// Price: beside GradientParts, a norm of the gradients per part, one of the averages per step, and four numbers summed
// over the ranks. One thread owns it.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/torch/gradient_parts.hpp"

namespace paceline {

// What a report shows and a JSON line carries. Empty where there was nothing to learn from yet, or where the gradient
// drowned in its noise.
struct GradientFigures {
  std::int64_t steps = 0;  // that had two parts or more
  double noise = 0;        // tr C
  double signal = 0;       // |L'|^2
  std::optional<double> noise_scale = {};
  std::optional<double> diversity = {};
  std::optional<double> diversity_bound = {};  // of the batch

  std::string text() const;  // a sentence for people
};
nlohmann::ordered_json to_json(const GradientFigures& figures);

class GradientStatistics final : public PartObserver {
 public:
  // The parameters are those of GradientParts; `examples` are in the training set. A step weighs `decay` times what the
  // next one does.
  GradientStatistics(std::vector<torch::Tensor> parameters, std::int64_t examples, double decay = 0.98);

  void begin_step() override;
  void begin_part(const Part& part) override;
  void observe(std::size_t parameter, const torch::Tensor& gradient) override;

  // After finish(): what this rank has to say, to be added up over the ranks, and then absorbed by all. end_step does
  // both; a program that sums something in each step anyway lets these four numbers travel along.
  using Sums = std::array<double, 4>;
  Sums contribution(int ranks) const;
  void absorb(const Sums& sums);
  void end_step(Communicator& communicator);

  GradientFigures figures() const;

  // What a checkpoint must carry.
  struct State {
    std::int64_t steps = 0;
    double weight = 0;  // of all steps so far
    double noise = 0;   // weighted sums
    double signal = 0;
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  const std::vector<torch::Tensor> parameters_;
  const double examples_in_set_;
  const double decay_;
  // Of this step and rank.
  double squares_ = 0;  // sum of m |g|^2 over the parts
  double parts_ = 0;
  double examples_ = 0;
  double square_scale_ = 0;  // of the part that is being observed
  State state_;
};

}  // namespace paceline
