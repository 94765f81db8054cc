// One pass over a parameter, its gradient and its optimizer state. SIMD by Highway, chosen at run time. The arithmetic
// is that of torch::optim, operation by operation. Pure functions, thread-safe, no torch types.
#pragma once

#include <cstddef>

namespace paceline {

// The arrays that a step goes over, all of one length. What each `state` is stands beside the step; those that are not
// there are nullptr.
template <class T>
struct StepArrays {
  T* parameter = nullptr;
  const T* gradient = nullptr;
  T* state[3] = {nullptr, nullptr, nullptr};
};

// Words of memory per element, read and written: 3 plain, 5 with momentum.
struct SgdStep {
  double lr = 0;
  double momentum = 0;  // 0: there is no state; else state[0] is the buffer
  double intake = 1;    // what the buffer takes in of the gradient: 1 - dampening
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the buffer becomes the gradient
};
void fused_step(const SgdStep& step, const StepArrays<float>& arrays, std::size_t count);
void fused_step(const SgdStep& step, const StepArrays<double>& arrays, std::size_t count);

// Adam (Kingma & Ba 2015), and AdamW (Loshchilov & Hutter 2019), which takes the weight decay off the parameter itself.
// State: mean, mean of squares. 7 words.
struct AdamStep {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;     // added to the gradient
  double shrink = 1;           // the parameter is multiplied by it first
  double step_size = 0;        // lr / (1 - beta1^t)
  double root_correction = 1;  // sqrt(1 - beta2^t)
};
void fused_step(const AdamStep& step, const StepArrays<float>& arrays, std::size_t count);
void fused_step(const AdamStep& step, const StepArrays<double>& arrays, std::size_t count);

// Adagrad (Duchi, Hazan & Singer 2011). State: sum of squares. 5 words.
struct AdagradStep {
  double lr = 0;  // of this step: lr / (1 + (t - 1) lr_decay)
  double epsilon = 1e-10;
  double weight_decay = 0;
};
void fused_step(const AdagradStep& step, const StepArrays<float>& arrays, std::size_t count);
void fused_step(const AdagradStep& step, const StepArrays<double>& arrays, std::size_t count);

// RMSprop (Tieleman & Hinton 2012), centered as in Graves 2013. State: mean of squares, with momentum its buffer,
// centered the mean. 5 words, and 2 for each of the others.
struct RmspropStep {
  double lr = 0;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
};
void fused_step(const RmspropStep& step, const StepArrays<float>& arrays, std::size_t count);
void fused_step(const RmspropStep& step, const StepArrays<double>& arrays, std::size_t count);

// LAMB (You et al. 2020), in two passes, because the length of a step depends on the norm of the whole direction
//   mean / (1 - beta1^t) / (sqrt(square) / root_correction + epsilon) + weight_decay parameter.
// lamb_direction brings the moments up to date and writes the direction to state[2], which may be a small piece of
// memory that stays in cache: 6 words. fused_step makes the direction anew and goes along it: 4 words.
// State: mean, mean of squares.
struct LambStep {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0;
  double mean_correction = 1;  // 1 / (1 - beta1^t)
  double root_correction = 1;  // sqrt(1 - beta2^t)
  double step_size = 0;        // lr times the trust ratio
};
void lamb_direction(const LambStep& step, const StepArrays<float>& arrays, std::size_t count);
void lamb_direction(const LambStep& step, const StepArrays<double>& arrays, std::size_t count);
void fused_step(const LambStep& step, const StepArrays<float>& arrays, std::size_t count);
void fused_step(const LambStep& step, const StepArrays<double>& arrays, std::size_t count);

// The sum of squares, added up in double precision and in an order that does not depend on the width of the machine's
// vectors: element i goes to sum i % 16. The square of a float is exact in it, so that all machines have the same bits;
// of doubles, those with the same multiply-add.
double square_sum(const float* values, std::size_t count);
double square_sum(const double* values, std::size_t count);

}  // namespace paceline
