#include "paceline/torch/autograd_hook.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace paceline {
namespace {

class PostHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void()> fired) : fired_(std::move(fired)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    fired_();
    return outputs;
  }

 private:
  std::function<void()> fired_;
};

}  // namespace

struct AutogradHook::State {
  // Held, because the parameter holds it only weakly: without this a new one, without the hook, would be made.
  std::shared_ptr<torch::autograd::Node> accumulator;
  std::uintptr_t key = 0;
};

AutogradHook::AutogradHook(const torch::Tensor& parameter, std::function<void()> fired)
    : state_(std::make_unique<State>()) {
  state_->accumulator = torch::autograd::impl::grad_accumulator(parameter);
  state_->key = state_->accumulator->add_post_hook(std::make_unique<PostHook>(std::move(fired)));
}

AutogradHook::~AutogradHook() { state_->accumulator->del_post_hook(state_->key); }

bool AutogradHook::attached_to(const torch::Tensor& parameter) const {
  return torch::autograd::impl::try_get_grad_accumulator(parameter) == state_->accumulator;
}

}  // namespace paceline
