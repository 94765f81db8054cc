// Lars: layer-wise adaptive rate scaling (You, Gitman & Ginsburg 2017, "Large batch training of convolutional
// networks"), for batches of thousands of examples, where one rate no longer fits all layers. With rate r,
//   trust  = eta |w| / (|g| + weight_decay |w| + eps)
//   buffer = momentum buffer + r trust (g + weight_decay w)
//   w      = w - buffer
// where trust is 1 if |w| or |g| is 0, and for parameters of one dimension, which do not decay either
// (trust_ratio.hpp). A torch::optim::Optimizer like the stock ones: step() takes no account of paceline. Two passes
// over memory in FusedOptimizer: w and g for the norms, then w, g and the buffer (7 words per element).
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <vector>

namespace paceline {

struct LarsOptions : torch::optim::OptimizerCloneableOptions<LarsOptions> {
  LarsOptions(double lr = 1) : lr_(lr) {}
  TORCH_ARG(double, lr) = 1;
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, eta) = 0.001;
  TORCH_ARG(double, eps) = 1e-8;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { this->lr(lr); }

  double trust_ratio(double parameter_norm, double gradient_norm) const;
};

struct LarsParamState : torch::optim::OptimizerCloneableParamState<LarsParamState> {
  TORCH_ARG(torch::Tensor, momentum_buffer) = {};

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

class Lars : public torch::optim::Optimizer {
 public:
  // Throws Error{invalid} for options that cannot be.
  explicit Lars(std::vector<torch::optim::OptimizerParamGroup> groups, LarsOptions defaults = {});
  explicit Lars(std::vector<torch::Tensor> parameters, LarsOptions defaults = {});

  torch::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void update(torch::Tensor& parameter, const LarsOptions& options);
};

}  // namespace paceline
