#include <cmath>

#include "paceline/core/check.hpp"
#include "paceline/server/update_kernels.hpp"

namespace paceline {
namespace {

// Enough for beta2 = 0.999 to come within rounding of its limit.
constexpr std::uint64_t kRemembered = 1 << 15;

RuleNumbers fixed_numbers(const UpdateRule& rule) {
  RuleNumbers n;
  n.weight_decay = static_cast<float>(rule.weight_decay);
  n.momentum = static_cast<float>(rule.momentum);
  n.alpha = static_cast<float>(rule.alpha);
  n.fresh_alpha = static_cast<float>(1 - rule.alpha);
  n.beta1 = static_cast<float>(rule.beta1);
  n.fresh_beta1 = static_cast<float>(1 - rule.beta1);
  n.beta2 = static_cast<float>(rule.beta2);
  n.fresh_beta2 = static_cast<float>(1 - rule.beta2);
  n.epsilon = static_cast<float>(rule.epsilon);
  n.per_alpha = rule.kind == RuleKind::ftrl ? static_cast<float>(1 / rule.lr) : 0;
  n.beta = static_cast<float>(rule.beta);
  n.l1 = static_cast<float>(rule.l1);
  n.l2 = static_cast<float>(rule.l2);
  return n;
}

}  // namespace

StepNumbers::StepNumbers(const UpdateRule& rule, double scale)
    : rule_(rule), scale_(scale), numbers_(fixed_numbers(rule)) {
  rescale(scale);
}

void StepNumbers::rescale(double scale) {
  scale_ = scale;
  numbers_.scale = static_cast<float>(scale);
  numbers_.rate = static_cast<float>(rule_.lr * scale);
}

StepNumbers::Correction StepNumbers::correction(std::uint64_t step) {
  CHECK(step > 0, "the first update is step 1");
  if (step < seen_.size() && seen_[step].root != 0) return seen_[step];
  const auto t = static_cast<double>(step);
  const Correction fresh{1 / (1 - std::pow(rule_.beta1, t)),
                         static_cast<float>(std::sqrt(1 - std::pow(rule_.beta2, t)))};
  if (step < kRemembered) {
    if (step >= seen_.size()) seen_.resize(step + 1);
    seen_[step] = fresh;
  }
  return fresh;
}

const RuleNumbers& StepNumbers::at(std::uint64_t step) {
  if (!counts_steps(rule_.kind)) return numbers_;
  const Correction now = correction(step);
  numbers_.rate = static_cast<float>(rule_.lr * scale_ * now.rate);
  numbers_.root = now.root;
  return numbers_;
}

}  // namespace paceline
