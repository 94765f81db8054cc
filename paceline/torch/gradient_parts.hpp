// GradientParts: what each part of a step's batch adds to the gradients. A batch goes through the model in parts whose
// gradients add up in .grad; the difference to what was there before is the part's own.
//
//   GradientParts parts(model->parameters(), {&noise, &statistics});
//   model->zero_grad(true);
//   parts.begin();
//   for (…) {
//     auto quiet = parallel.no_sync();                        // of all parts, the last one included
//     (loss(net, part) * weight).backward();
//     parts.after_part({.examples = count, .weight = weight});
//   }
//   parallel.finish();
//
// The last part must be quiet too: once a gradient is on its way, peers write into it, and finish() sends what has not
// left. What travels no longer overlaps with the last part's backward then.
//
// Price: one more copy of the gradients; each part reads thrice their size and writes it twice. One thread owns it;
// observers outlive it.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

struct Part {
  std::int64_t examples = 0;
  double weight = 1;  // by which its mean loss was multiplied before backward
};

class PartObserver {
 public:
  virtual ~PartObserver() = default;
  virtual void begin_step() = 0;
  virtual void begin_part(const Part& part) = 0;
  // Of the part that has begun: what it added to this parameter's gradient, its weight included. Contiguous. Not called
  // for parameters without a gradient.
  virtual void observe(std::size_t parameter, const torch::Tensor& gradient) = 0;
};

class GradientParts {
 public:
  // Error{invalid} for a parameter that is not dense and floating, on the CPU.
  GradientParts(std::vector<torch::Tensor> parameters, std::vector<PartObserver*> observers);

  // After zero_grad, before the first backward.
  void begin();
  void after_part(const Part& part);  // Error{invalid} for a part without examples or weight, and sparse gradients

 private:
  struct Slot {
    torch::Tensor parameter;
    torch::Tensor before;  // its gradient when the last part had been added
    bool empty = true;     // none has
  };
  void read(std::size_t index);

  std::vector<Slot> slots_;
  const std::vector<PartObserver*> observers_;
};

// Those that are trained, each once, in the order given: what GradientParts and its observers should be made of, so
// that their numbers agree.
std::vector<torch::Tensor> trained(const std::vector<torch::Tensor>& parameters);

}  // namespace paceline
