#include "paceline/torch/gradient_statistics.hpp"

#include <fmt/format.h>
#include <torch/torch.h>

#include <utility>

namespace paceline {
namespace {

double squared_norm(const torch::Tensor& tensor) {
  const double norm = tensor.norm(2, torch::kDouble).item<double>();
  return norm * norm;
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace

std::string GradientFigures::text() const {
  if (steps == 0) return "gradient noise: not known, because no step had two parts or more";
  if (!noise_scale) return "gradient noise: so large that the gradient cannot be told from it";
  return fmt::format(
      "gradient noise scale {:.0f} (batches much below it lose little, much above it they waste), "
      "gradient diversity {:.2g}, which allows batches of {:.0f}",
      *noise_scale, *diversity, *diversity_bound);
}

nlohmann::ordered_json to_json(const GradientFigures& figures) {
  return {{"steps", figures.steps},
          {"noise", figures.noise},
          {"signal", figures.signal},
          {"noise_scale", or_null(figures.noise_scale)},
          {"diversity", or_null(figures.diversity)},
          {"diversity_bound", or_null(figures.diversity_bound)}};
}

GradientStatistics::GradientStatistics(std::vector<torch::Tensor> parameters, std::int64_t examples, double decay)
    : parameters_(std::move(parameters)), examples_in_set_(static_cast<double>(examples)), decay_(decay) {}

void GradientStatistics::begin_step() { squares_ = parts_ = examples_ = 0; }

void GradientStatistics::begin_part(const Part& part) {
  const auto examples = static_cast<double>(part.examples);
  square_scale_ = examples / (part.weight * part.weight);
  parts_ += 1;
  examples_ += examples;
}

void GradientStatistics::observe(std::size_t, const torch::Tensor& gradient) {
  squares_ += square_scale_ * squared_norm(gradient);
}

// The average's norm is the same on all ranks but for its last bits, which the mean over the ranks settles.
GradientStatistics::Sums GradientStatistics::contribution(int ranks) const {
  const torch::NoGradGuard no_grad;
  double norm = 0;
  for (const torch::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) norm += squared_norm(parameter.grad());
  }
  return {squares_, parts_, examples_, norm / ranks};
}

void GradientStatistics::absorb(const Sums& sums) {
  const auto [squares, parts, examples, norm] = sums;
  if (parts < 2) return;
  const double noise = (squares - examples * norm) / (parts - 1);
  ++state_.steps;
  state_.weight = decay_ * state_.weight + 1;
  state_.noise = decay_ * state_.noise + noise;
  state_.signal = decay_ * state_.signal + norm - noise / examples;
}

void GradientStatistics::end_step(Communicator& communicator) {
  Sums sums = contribution(communicator.size());
  communicator.allreduce(view(sums), ReduceOp::sum, {.name = "gradient statistics", .algorithm = Algorithm::ordered});
  absorb(sums);
}

GradientFigures GradientStatistics::figures() const {
  GradientFigures result{.steps = state_.steps};
  if (state_.steps == 0) return result;
  result.noise = state_.noise / state_.weight;
  result.signal = state_.signal / state_.weight;
  if (result.signal <= 0 || result.noise < 0) return result;
  result.noise_scale = result.noise / result.signal;
  result.diversity_bound = *result.noise_scale + 1;
  result.diversity = *result.diversity_bound / examples_in_set_;
  return result;
}

}  // namespace paceline
