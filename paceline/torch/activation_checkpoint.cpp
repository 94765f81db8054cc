#include "paceline/torch/activation_checkpoint.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <mutex>
#include <utility>

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using SegmentFunction = std::function<torch::Tensor(const torch::Tensor&)>;

thread_local bool recomputing_now = false;  // a layer deep inside a segment has no other way to know

torch::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const torch::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// While it lives the segment's first run is repeated: gradients are recorded, random numbers are those of then.
class Again {
 public:
  explicit Again(const torch::Tensor& state) : now_(random_state()), outer_(std::exchange(recomputing_now, true)) {
    set_random_state(state);
  }
  ~Again() {
    recomputing_now = outer_;
    set_random_state(now_);
  }
  Again(const Again&) = delete;
  Again& operator=(const Again&) = delete;

 private:
  torch::Tensor now_;
  bool outer_;
  torch::AutoGradMode record_{true};
};

struct Segment : torch::CustomClassHolder {
  Segment(SegmentFunction function, torch::Tensor before) : run(std::move(function)), state(std::move(before)) {}
  SegmentFunction run;
  torch::Tensor state;  // of the random generator before the first run
};

class Checkpointed : public torch::autograd::Function<Checkpointed> {
 public:
  // `anchor` wants a gradient: without one among the inputs nothing would be recorded for a segment whose input is
  // data.
  static torch::Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Segment>& segment,
                               const torch::Tensor& input, const torch::Tensor& /*anchor*/) {
    context->saved_data["segment"] = c10::IValue::make_capsule(segment);
    context->save_for_backward({input});
    return segment->run(input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["segment"].toCapsule();
    const auto& segment = static_cast<const Segment&>(*holder);
    torch::Tensor input = context->get_saved_variables()[0].detach();
    input.set_requires_grad(context->needs_input_grad(0));
    torch::Tensor output;
    {
      const Again again(segment.state);
      output = segment.run(input);
    }
    torch::autograd::backward({output}, {gradients[0]});
    return {torch::Tensor(), input.grad(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor checkpoint(const SegmentFunction& segment, const torch::Tensor& input) {
  if (!torch::GradMode::is_enabled()) return segment(input);
  const torch::Tensor anchor = torch::empty({0}, torch::requires_grad());
  return Checkpointed::apply(c10::make_intrusive<Segment>(segment, random_state()), input, anchor);
}

bool recomputing() { return recomputing_now; }

}  // namespace paceline
