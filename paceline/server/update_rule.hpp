// UpdateRule: what a server does with a gradient that arrives, as a value. `apply` is the arithmetic, in place, SIMD by
// Highway chosen at run time; with equal numbers it is that of torch::optim within rounding. Pure functions,
// thread-safe.
//
//   UpdateRule rule = parse_rule("adam:0.001,beta2=0.99");
//   apply(rule, {.values = w, .state = s, .gradient = g, .count = n, .step = 1});
//
// Notation: NAME, then after a colon settings that are separated by commas. The first may be a plain number: the rate.
// The others are KEY=VALUE with torch::optim's words: "add", "sgd:0.1", "momentum:0.1,momentum=0.8", "ftrl:0.05,l1=1".
//
// A new rule is a kind here, a row in the table of update_rule.cpp, and a formula in update_kernels.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

enum class RuleKind : std::uint8_t { add, sgd, momentum, adagrad, rmsprop, adam, ftrl };
inline constexpr RuleKind kAllRuleKinds[] = {RuleKind::add,     RuleKind::sgd,  RuleKind::momentum, RuleKind::adagrad,
                                             RuleKind::rmsprop, RuleKind::adam, RuleKind::ftrl};

// Those numbers that a kind has no use for stay as they are here; the table of update_rule.cpp says which it has.
struct UpdateRule {
  RuleKind kind = RuleKind::add;
  double lr = 0;  // ftrl: the paper's alpha
  double weight_decay = 0;
  double momentum = 0;
  double alpha = 0;  // rmsprop: what stays of the mean of squares
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double beta = 0;  // ftrl
  double l1 = 0;    // ftrl
  double l2 = 0;    // ftrl

  std::string text() const;  // what parse_rule takes; only what is not as usual
  bool operator==(const UpdateRule&) const = default;
};

// Throws Error{invalid} that lists what there is.
UpdateRule parse_rule(std::string_view text);
// Every rule with its settings and their usual values, in one line.
std::string rule_help();

// Floats of state beside each parameter: 0 add, sgd; 1 momentum (the buffer), adagrad (sum of squares), rmsprop (mean
// of squares); 2 adam (mean, mean of squares), ftrl (z, n). All begin as zeros.
std::size_t state_floats(RuleKind kind);
// Whether `step` matters: adam's bias correction.
bool counts_steps(RuleKind kind);
// Whether gradients that are applied one after the other act as their sum applied once (but for rounding).
bool is_linear(const UpdateRule& rule);

struct RowUpdate {
  float* values = nullptr;
  float* state = nullptr;  // one or two arrays of `count`
  const float* gradient = nullptr;
  std::size_t count = 0;
  std::size_t state_spacing = 0;  // floats from the first array of state to the second
  std::uint64_t step = 1;         // how often these values have been updated, this one included
  // Of the rate, for example by staleness (Zhang et al. 2016). add and ftrl, which have no rate that a step is
  // multiplied by, take scale times the gradient.
  double scale = 1;
};
void apply(const UpdateRule& rule, const RowUpdate& update);

// Delay compensation (DC-ASGD, Zheng et al. 2017), in place: g + lambda g*g*(w_now - w_then), where w_then are the
// values that the gradient was computed at.
struct DelayedGradient {
  float* gradient = nullptr;
  const float* now = nullptr;
  const float* then = nullptr;
  std::size_t count = 0;
};
void compensate_delay(const DelayedGradient& delayed, double lambda);

}  // namespace paceline
