// One pass over a parameter, its gradient and its optimizer state. SIMD by Highway, chosen at run time. The arithmetic
// is that of torch::optim, operation by operation. Pure functions, thread-safe, no torch types.
#pragma once

#include <cstddef>

namespace paceline {

struct SgdStep {
  double lr = 0;
  double momentum = 0;  // 0: there is no buffer
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the buffer becomes the gradient
};
void sgd_step(const SgdStep& step, float* parameter, const float* gradient, float* buffer, std::size_t count);
void sgd_step(const SgdStep& step, double* parameter, const double* gradient, double* buffer, std::size_t count);

// Adam (Kingma & Ba 2015), and AdamW (Loshchilov & Hutter 2019), which takes the weight decay off the parameter itself.
struct AdamStep {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;     // added to the gradient
  double shrink = 1;           // the parameter is multiplied by it first
  double step_size = 0;        // lr / (1 - beta1^t)
  double root_correction = 1;  // sqrt(1 - beta2^t)
};
void adam_step(const AdamStep& step, float* parameter, const float* gradient, float* mean, float* square,
               std::size_t count);
void adam_step(const AdamStep& step, double* parameter, const double* gradient, double* mean, double* square,
               std::size_t count);

}  // namespace paceline
