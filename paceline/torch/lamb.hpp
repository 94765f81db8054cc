// Lamb: Adam's direction with a trust ratio for each parameter (You et al. 2020, "Large batch optimization for deep
// learning: training BERT in 76 minutes"). With rate r and Adam's means m and s, corrected for their start,
//   direction = m / (sqrt(s) + eps) + weight_decay w
//   w         = w - r |w| / |direction| direction
// where the ratio is 1 if a norm is 0, and for parameters of one dimension, which do not decay either
// (trust_ratio.hpp). A torch::optim::Optimizer like the stock ones: step() takes no account of paceline. Two passes
// over memory in FusedOptimizer: w, g, m and s for the means and the norms, then w, m and s (10 words per element).
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <tuple>
#include <vector>

namespace paceline {

struct LambOptions : torch::optim::OptimizerCloneableOptions<LambOptions> {
  LambOptions(double lr = 1e-3) : lr_(lr) {}
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { this->lr(lr); }

  static double trust_ratio(double parameter_norm, double direction_norm);
};

struct LambParamState : torch::optim::OptimizerCloneableParamState<LambParamState> {
  TORCH_ARG(int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, exp_avg) = {};
  TORCH_ARG(torch::Tensor, exp_avg_sq) = {};

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

class Lamb : public torch::optim::Optimizer {
 public:
  // Throws Error{invalid} for options that cannot be.
  explicit Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, LambOptions defaults = {});
  explicit Lamb(std::vector<torch::Tensor> parameters, LambOptions defaults = {});

  torch::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void update(torch::Tensor& parameter, const LambOptions& options);
};

}  // namespace paceline
