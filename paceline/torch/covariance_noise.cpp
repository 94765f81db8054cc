#include "paceline/torch/covariance_noise.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

// The natural logarithm of a value in (0, 1), by 2 artanh((m - 1) / (m + 1)). libm's may differ in its last bit from
// one processor to the next, and with it replicas.
double logarithm(double value) {
  int exponent = 0;
  double m = std::frexp(value, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;  // |s| < 0.172: eleven terms are all of a double
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

// Standard normal numbers in pairs, by the polar method (Marsaglia & Bray 1964).
void draw(Random random, std::span<float> numbers) {
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    double x = 0, y = 0, square = 0;
    do {
      x = 2 * random.uniform() - 1;
      y = 2 * random.uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double stretch = std::sqrt(-2 * logarithm(square) / square);
    numbers[i] = static_cast<float>(x * stretch);
    if (i + 1 < numbers.size()) numbers[i + 1] = static_cast<float>(y * stretch);
  }
}

torch::Tensor tensor_of(std::span<float> numbers, at::IntArrayRef shape) {
  return torch::from_blob(numbers.data(), shape, torch::kFloat);
}

}  // namespace

CovarianceNoise::CovarianceNoise(NoiseSpec spec, std::uint64_t seed, std::vector<torch::Tensor> parameters)
    : spec_(spec), seed_(seed), parameters_(std::move(parameters)) {
  std::size_t size = 0, largest = 0;
  for (const torch::Tensor& parameter : parameters_) {
    first_.push_back(size);
    size += static_cast<std::size_t>(parameter.numel());
    largest = std::max(largest, static_cast<std::size_t>(parameter.numel()));
  }
  first_.push_back(size);
  sums_.resize(size + 2);
  drawn_.resize(largest);
}

std::span<float> CovarianceNoise::squares_of(std::size_t parameter) {
  return std::span(sums_).subspan(first_[parameter], first_[parameter + 1] - first_[parameter]);
}

void CovarianceNoise::begin_step() { std::fill(sums_.begin(), sums_.end(), 0.0f); }

void CovarianceNoise::begin_part(const Part& part) {
  const auto examples = static_cast<double>(part.examples);
  square_scale_ = examples / (part.weight * part.weight);
  sums_[first_.back()] += 1;
  sums_[first_.back() + 1] += static_cast<float>(examples);
}

void CovarianceNoise::observe(std::size_t parameter, const torch::Tensor& gradient) {
  const torch::Tensor own = gradient.to(torch::kFloat);
  tensor_of(squares_of(parameter), own.sizes()).addcmul_(own, own, square_scale_);
}

void CovarianceNoise::add(Communicator& communicator, std::int64_t step) {
  const torch::NoGradGuard no_grad;
  communicator.allreduce(view(sums_), ReduceOp::sum, {.name = "noise", .algorithm = Algorithm::ordered});
  trace_ = power_ = 0;
  const double parts = sums_[first_.back()], examples = sums_[first_.back() + 1];
  const double missing = 1 / static_cast<double>(spec_.batch) - 1 / std::max(1.0, examples);
  if (parts < 2 || missing <= 0) return;
  keep_variances();
  power_ = missing * trace_;
  const bool alike = spec_.shape == NoiseSpec::Shape::trace;
  const double scale = std::sqrt(alike ? power_ / static_cast<double>(first_.back()) : missing);
  for (std::size_t i = 0; i < parameters_.size(); ++i) add_to(i, step, scale);
}

// Turns the sums of squares into C_ii. What rounding has made negative is zero.
void CovarianceNoise::keep_variances() {
  const double parts = sums_[first_.back()], examples = sums_[first_.back() + 1];
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    const torch::Tensor mean = gradient.to(torch::kFloat).contiguous();
    const float* means = mean.data_ptr<float>();
    for (float& square : squares_of(i)) {
      const double average = *means++;
      const double variance = std::max(0.0, (square - examples * average * average) / (parts - 1));
      trace_ += variance;
      square = static_cast<float>(variance);
    }
  }
}

void CovarianceNoise::add_to(std::size_t parameter, std::int64_t step, double scale) {
  torch::Tensor& gradient = parameters_[parameter].mutable_grad();
  if (!gradient.defined()) return;
  const std::span<const float> variances = squares_of(parameter);
  const std::span<float> noise = std::span(drawn_).first(variances.size());
  draw(Random(mix(seed_, static_cast<std::uint64_t>(step)), parameter), noise);
  const bool alike = spec_.shape == NoiseSpec::Shape::trace;
  for (std::size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<float>(noise[i] * scale * (alike ? 1 : std::sqrt(static_cast<double>(variances[i]))));
  gradient.add_(tensor_of(noise, gradient.sizes()).to(gradient.scalar_type()));
}

}  // namespace paceline
