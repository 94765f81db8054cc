#include "paceline/torch/parameter_arena.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/error.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {
namespace {

std::size_t padded(std::size_t bytes) {
  return (bytes + ParameterArena::kAlign - 1) / ParameterArena::kAlign * ParameterArena::kAlign;
}

// Dense tensors keep their own order of dimensions (channels last, transposed); others become contiguous.
std::vector<std::int64_t> strides_of(const torch::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor.strides().vec() : tensor.contiguous().strides().vec();
}

}  // namespace

ParameterArena::ParameterArena(Endpoint& endpoint, std::vector<ArenaTensor> tensors,
                               const std::vector<std::size_t>& order, std::size_t generations)
    : generations_(generations) {
  const torch::NoGradGuard no_grad;
  for (ArenaTensor& tensor : tensors) {
    const torch::Tensor& parameter = tensor.parameter;
    const DType dtype = view_of(parameter.is_non_overlapping_and_dense() ? parameter : parameter.contiguous(),
                                fmt::format("parameter '{}'", tensor.name))
                            .dtype;
    auto region = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.dtype == dtype; });
    if (region == regions_.end())
      region = regions_.insert(region, Region{.dtype = dtype, .parameters = {}, .gradients = {}});
    Slot slot;
    slot.name = std::move(tensor.name);
    slot.parameter = parameter;
    slot.shape = parameter.sizes().vec();
    slot.strides = strides_of(parameter);
    slot.region = static_cast<std::size_t>(region - regions_.begin());
    slot.bytes = static_cast<std::size_t>(parameter.numel()) * size_of(dtype);
    region->bytes += padded(slot.bytes);
    slots_.push_back(std::move(slot));
  }
  for (Region& region : regions_) {
    region.parameters = endpoint.allocate(std::max(region.bytes, kAlign));
    for (std::size_t g = 0; g < generations_; ++g)
      region.gradients.push_back(endpoint.allocate(std::max(region.bytes, kAlign)));
  }
  place(order);
  for (Slot& slot : slots_) {
    const torch::Tensor old_gradient = slot.parameter.grad();
    make_tensors(slot);
    slot.data.copy_(slot.parameter.detach());
    slot.parameter.set_data(slot.data);
    if (old_gradient.defined()) home_of(slot).copy_(old_gradient);
    slot.parameter.mutable_grad() = home_of(slot);
  }
}

// The model may live on when its arena does not.
ParameterArena::~ParameterArena() {
  const torch::NoGradGuard no_grad;
  for (Slot& slot : slots_) {
    if (slot.parameter.data_ptr() == slot.data.data_ptr()) slot.parameter.set_data(slot.parameter.detach().clone());
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    if (gradient.defined() && gradient.data_ptr() == home_of(slot).data_ptr()) gradient = gradient.clone();
  }
}

void ParameterArena::place(const std::vector<std::size_t>& order) {
  TORCH_INTERNAL_ASSERT(order.size() == slots_.size(), "an arena's order lists each tensor once");
  std::vector<std::size_t> ends(regions_.size());
  for (const std::size_t index : order) {
    Slot& slot = slots_[index];
    slot.offset = ends[slot.region];
    ends[slot.region] += padded(slot.bytes);
  }
}

void ParameterArena::make_tensors(Slot& slot) {
  const auto options = torch::TensorOptions().dtype(torch_type(regions_[slot.region].dtype));
  slot.data = torch::from_blob(parameter_memory(slot), slot.shape, slot.strides, options);
  slot.gradients.clear();
  for (std::size_t g = 0; g < generations_; ++g)
    slot.gradients.push_back(torch::from_blob(gradient_memory(slot, g), slot.shape, slot.strides, options));
}

void ParameterArena::turn_to(std::size_t generation) {
  if (generation == home_) return;
  home_ = generation;
  for (Slot& slot : slots_) slot.parameter.mutable_grad() = home_of(slot);
}

void ParameterArena::zero_gradients() {
  for (const TensorView& range : gradient_ranges()) std::memset(range.data, 0, range.bytes());
}

std::size_t ParameterArena::generation_bytes() const {
  std::size_t bytes = 0;
  for (const Region& region : regions_) bytes += std::max(region.bytes, kAlign);
  return bytes;
}

void ParameterArena::lay_out(const std::vector<std::size_t>& order) {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<torch::Tensor>> contents;  // of each slot its parameter and all its gradients
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    adopt_parameter(i);
    contents.push_back({slots_[i].data.clone()});
    for (const torch::Tensor& gradient : slots_[i].gradients) contents.back().push_back(gradient.clone());
  }
  place(order);
  // Padding may now lie where numbers were.
  for (const Region& region : regions_) {
    std::memset(region.parameters.memory().data(), 0, region.parameters.memory().size());
    for (const Arena& gradients : region.gradients)
      std::memset(gradients.memory().data(), 0, gradients.memory().size());
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const bool shown = slot.parameter.grad().defined();
    make_tensors(slot);
    slot.data.copy_(contents[i][0]);
    for (std::size_t g = 0; g < generations_; ++g) slot.gradients[g].copy_(contents[i][1 + g]);
    slot.parameter.set_data(slot.data);
    if (shown) slot.parameter.mutable_grad() = home_of(slot);
  }
}

bool ParameterArena::adopt_parameter(std::size_t index) {
  Slot& slot = slots_[index];
  torch::Tensor& parameter = slot.parameter;
  if (parameter.data_ptr() == slot.data.data_ptr()) return false;
  if (parameter.scalar_type() != slot.data.scalar_type()) {
    throw Error(Code::invalid,
                fmt::format("parameter '{}' was {} when DataParallel was made and is {} now; convert the model first, "
                            "then make the optimizer and DataParallel",
                            slot.name, toString(slot.data.scalar_type()), toString(parameter.scalar_type())));
  }
  if (parameter.sizes() != torch::IntArrayRef(slot.shape)) {
    throw Error(Code::invalid,
                fmt::format("parameter '{}' had the shape [{}] when DataParallel was made and has [{}] now", slot.name,
                            fmt::join(slot.shape, ", "), fmt::join(parameter.sizes(), ", ")));
  }
  const torch::NoGradGuard no_grad;
  slot.data.copy_(parameter.detach());
  parameter.set_data(slot.data);
  return true;
}

bool ParameterArena::gradient_is_home(std::size_t index) const {
  const Slot& slot = slots_[index];
  const torch::Tensor& gradient = slot.parameter.grad();
  return gradient.defined() && gradient.layout() == torch::kStrided &&
         gradient.data_ptr() == slot.gradients[home_].data_ptr();
}

bool ParameterArena::adopt_gradient(std::size_t index) {
  if (gradient_is_home(index)) return false;
  Slot& slot = slots_[index];
  const torch::NoGradGuard no_grad;
  torch::Tensor& gradient = slot.parameter.mutable_grad();
  torch::Tensor& home = home_of(slot);
  if (!gradient.defined()) {
    home.zero_();
  } else if (gradient.scalar_type() != home.scalar_type()) {
    throw Error(Code::invalid,
                fmt::format("the gradient of '{}' is {}, the parameter was {} when DataParallel was made", slot.name,
                            toString(gradient.scalar_type()), toString(home.scalar_type())));
  } else {
    home.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  gradient = home;
  return true;
}

void ParameterArena::hide_gradient(std::size_t index) { slots_[index].parameter.mutable_grad() = torch::Tensor(); }
void ParameterArena::show_gradient(std::size_t index) {
  slots_[index].parameter.mutable_grad() = home_of(slots_[index]);
}

std::byte* ParameterArena::parameter_memory(const Slot& slot) const {
  return regions_[slot.region].parameters.memory().data() + slot.offset;
}

std::byte* ParameterArena::gradient_memory(const Slot& slot, std::size_t generation) const {
  return regions_[slot.region].gradients[generation].memory().data() + slot.offset;
}

TensorView ParameterArena::parameter_view(std::size_t index) const {
  const Slot& slot = slots_[index];
  return {parameter_memory(slot), static_cast<std::int64_t>(slot.bytes / size_of(dtype(index))), dtype(index)};
}

TensorView ParameterArena::gradient_view(std::size_t index) const {
  const Slot& slot = slots_[index];
  return {gradient_memory(slot, home_), static_cast<std::int64_t>(slot.bytes / size_of(dtype(index))), dtype(index)};
}

TensorView ParameterArena::gradient_range(std::size_t first, std::size_t last) const {
  const Slot& a = slots_[first];
  const Slot& b = slots_[last];
  TORCH_INTERNAL_ASSERT(a.region == b.region && a.offset <= b.offset, "a range of gradients lies in one region");
  const std::size_t bytes = b.offset + padded(b.bytes) - a.offset;
  return {gradient_memory(a, home_), static_cast<std::int64_t>(bytes / size_of(dtype(first))), dtype(first)};
}

namespace {

TensorView range_of(const Arena& arena, DType dtype, std::size_t bytes) {
  return {arena.memory().data(), static_cast<std::int64_t>(bytes / size_of(dtype)), dtype};
}

}  // namespace

std::vector<TensorView> ParameterArena::parameter_ranges() const {
  std::vector<TensorView> ranges;
  for (const Region& region : regions_) ranges.push_back(range_of(region.parameters, region.dtype, region.bytes));
  return ranges;
}

std::vector<TensorView> ParameterArena::gradient_ranges() const {
  std::vector<TensorView> ranges;
  for (const Region& region : regions_) ranges.push_back(range_of(region.gradients[home_], region.dtype, region.bytes));
  return ranges;
}

std::vector<TensorView> ParameterArena::gradient_ranges_of_all_generations() const {
  std::vector<TensorView> ranges;
  for (const Region& region : regions_) {
    for (const Arena& gradients : region.gradients) ranges.push_back(range_of(gradients, region.dtype, region.bytes));
  }
  return ranges;
}

}  // namespace paceline
