// AutogradHook: tells when a backward pass has added to a parameter's gradient. What depends on LibTorch's version and
// on its inner interfaces is in autograd_hook.cpp and nowhere else.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>

namespace paceline {

// Calls `fired` on the thread that runs backward, once per parameter and backward pass, after the gradient has been
// added. An exception that it throws comes out of backward(). Removed on destruction.
class AutogradHook {
 public:
  AutogradHook(const torch::Tensor& parameter, std::function<void()> fired);
  ~AutogradHook();
  AutogradHook(const AutogradHook&) = delete;
  AutogradHook& operator=(const AutogradHook&) = delete;

  // Whether the parameter's next backward will still come by here: to(dtype) gives a parameter a new accumulator.
  bool attached_to(const torch::Tensor& parameter) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline
