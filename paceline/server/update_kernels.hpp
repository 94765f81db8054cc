// The arithmetic of UpdateRule over many rows in one call, so that narrow rows do not pay for the choice of the
// instruction set each. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/server/update_rule.hpp"

namespace paceline {

// A rule's numbers as the formulas take them, for one step.
struct RuleNumbers {
  float rate = 0;  // lr times scale; adam: over 1 - beta1^step
  float scale = 1;
  float weight_decay = 0;
  float momentum = 0;
  float alpha = 0, fresh_alpha = 0;  // fresh: 1 - it, taken in double precision
  float beta1 = 0, fresh_beta1 = 0;
  float beta2 = 0, fresh_beta2 = 0;
  float epsilon = 0;
  float root = 1;  // adam: sqrt(1 - beta2^step)
  float per_alpha = 0, beta = 0, l1 = 0, l2 = 0;
};

// The numbers of a rule by step. Remembers adam's corrections, which cost two powers, for the steps that it has seen.
// Owned by one thread.
class StepNumbers {
 public:
  explicit StepNumbers(const UpdateRule& rule, double scale = 1);
  void rescale(double scale);
  // Valid until the next call.
  const RuleNumbers& at(std::uint64_t step);

 private:
  struct Correction {
    double rate = 0;
    float root = 0;
  };
  Correction correction(std::uint64_t step);

  UpdateRule rule_;
  double scale_;
  RuleNumbers numbers_;
  std::vector<Correction> seen_;  // index: step
};

struct RowPointers {
  float* values = nullptr;
  float* state = nullptr;
  const float* gradient = nullptr;
};

struct RowShape {
  std::size_t width = 0;
  std::size_t state_spacing = 0;  // floats from the first to the second array of a row's state
};

// One row after the other. `numbers` has one entry for all, or one for each row.
void update_rows(RuleKind kind, std::span<const RuleNumbers> numbers, std::span<const RowPointers> rows,
                 const RowShape& shape);

}  // namespace paceline
