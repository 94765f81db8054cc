#include "paceline/torch/gradient_parts.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/error.hpp"

namespace paceline {

std::vector<torch::Tensor> trained(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> result;
  for (const torch::Tensor& parameter : parameters) {
    const bool known =
        std::any_of(result.begin(), result.end(), [&](const auto& other) { return other.is_same(parameter); });
    if (parameter.requires_grad() && !known) result.push_back(parameter);
  }
  return result;
}

GradientParts::GradientParts(std::vector<torch::Tensor> parameters, std::vector<PartObserver*> observers)
    : observers_(std::move(observers)) {
  for (torch::Tensor& parameter : parameters) {
    if (!parameter.is_floating_point() || !parameter.device().is_cpu())
      throw Error(Code::invalid, "gradients of parts can be read of floating parameters on the CPU only");
    slots_.push_back({.parameter = std::move(parameter), .before = {}, .empty = true});
  }
}

void GradientParts::begin() {
  for (Slot& slot : slots_) slot.empty = true;
  for (PartObserver* observer : observers_) observer->begin_step();
}

void GradientParts::after_part(const Part& part) {
  if (part.examples < 1 || !(part.weight > 0))
    throw Error(Code::invalid, "a part of a batch has at least one example, and a weight above 0");
  const torch::NoGradGuard no_grad;
  for (PartObserver* observer : observers_) observer->begin_part(part);
  for (std::size_t i = 0; i < slots_.size(); ++i) read(i);
}

void GradientParts::read(std::size_t index) {
  Slot& slot = slots_[index];
  const torch::Tensor& gradient = slot.parameter.grad();
  if (!gradient.defined()) return;
  if (gradient.is_sparse())
    throw Error(Code::invalid, "noise and statistics of gradients need dense ones; an embedding here has sparse ones");
  if (!slot.before.defined())
    slot.before = torch::empty(gradient.sizes(), slot.parameter.options().requires_grad(false));
  const bool first = std::exchange(slot.empty, false);
  if (first) {
    slot.before.copy_(gradient);
  } else {
    torch::sub_out(slot.before, gradient, slot.before);
  }
  for (PartObserver* observer : observers_) observer->observe(index, slot.before);
  if (!first) slot.before.copy_(gradient);
}

}  // namespace paceline
