#include "paceline/torch/model_files.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/serialize.h>

#include <cstring>
#include <sstream>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/torch/replicas.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {
namespace {

constexpr const char* kOptimizer = "optimizer";

std::string generator_key(std::size_t rank) { return fmt::format("generator.{}", rank); }

const char* safetensors_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat: return "F32";
    case torch::kDouble: return "F64";
    case torch::kHalf: return "F16";
    case torch::kBFloat16: return "BF16";
    case torch::kLong: return "I64";
    case torch::kInt: return "I32";
    case torch::kChar: return "I8";
    case torch::kByte: return "U8";
    case torch::kBool: return "BOOL";
    default: throw Error(Code::invalid, fmt::format("a tensor of type {} cannot be saved", toString(type)));
  }
}

NamedArray array_of(const std::string& name, const torch::Tensor& contiguous) {
  return {.name = name,
          .dtype = safetensors_type(contiguous.scalar_type()),
          .shape = contiguous.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(contiguous.data_ptr()), contiguous.nbytes()}};
}

NamedArray array_of(const std::string& name, const std::string& bytes) {
  return {.name = name,
          .dtype = "U8",
          .shape = {static_cast<std::int64_t>(bytes.size())},
          .bytes = std::as_bytes(std::span(bytes))};
}

// Parameters under their own names, then buffers.
std::vector<NamedTensor> contents_of(const torch::nn::Module& model) {
  std::vector<NamedTensor> all = distinct_parameters(model);
  for (NamedTensor& buffer : distinct_buffers(model)) all.push_back(std::move(buffer));
  return all;
}

void copy_in(const Checkpoint& checkpoint, const NamedTensor& item) {
  const NamedArray* array = checkpoint.arrays.find(item.name);
  const bool fits = array != nullptr && array->shape == item.tensor.sizes().vec() &&
                    array->dtype == safetensors_type(item.tensor.scalar_type());
  if (!fits) {
    throw Error(Code::invalid, fmt::format("{} is a checkpoint of another model: its '{}' is {}", checkpoint.path,
                                           item.name, array == nullptr ? "missing" : "of another shape or type"));
  }
  const torch::NoGradGuard no_grad;
  torch::Tensor copy = torch::empty(item.tensor.sizes(), item.tensor.options().requires_grad(false));
  if (!array->bytes.empty()) std::memcpy(copy.data_ptr(), array->bytes.data(), array->bytes.size());
  torch::Tensor target = item.tensor.detach();
  target.copy_(copy);
}

}  // namespace

void save_model(const std::string& folder, const torch::nn::Module& model, const std::string& description) {
  torch::serialize::OutputArchive archive;
  model.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  write_atomically(folder + "/model.pt", std::move(stream).str());
  std::vector<torch::Tensor> kept;
  std::vector<NamedArray> arrays;
  for (const NamedTensor& item : contents_of(model)) {
    kept.push_back(item.tensor.detach().contiguous());
    arrays.push_back(array_of(item.name, kept.back()));
  }
  write_safetensors(folder + "/model.safetensors", arrays, {{"format", "pt"}, {"description", description}});
}

TrainingArrays::TrainingArrays(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer,
                               const std::vector<std::string>& generators) {
  texts_.reserve(1 + generators.size());  // arrays point into them
  for (const NamedTensor& item : contents_of(model)) {
    tensors_.push_back(item.tensor.detach().contiguous());
    arrays_.push_back(array_of(item.name, tensors_.back()));
  }
  texts_.push_back(optimizer_bytes(optimizer));
  arrays_.push_back(array_of(kOptimizer, texts_.back()));
  for (std::size_t rank = 0; rank < generators.size(); ++rank) {
    texts_.push_back(generators[rank]);
    arrays_.push_back(array_of(generator_key(rank), texts_.back()));
  }
}

void load_training(const Checkpoint& checkpoint, torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  for (const NamedTensor& item : contents_of(model)) copy_in(checkpoint, item);
  const NamedArray* array = checkpoint.arrays.find(kOptimizer);
  if (array == nullptr) throw Error(Code::invalid, checkpoint.path + " holds no optimizer");
  const std::string bytes(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size());
  try {
    load_optimizer(optimizer, bytes);
  } catch (const c10::Error& error) {
    throw Error(Code::invalid, fmt::format("{} is a checkpoint of another optimizer: {}", checkpoint.path,
                                           error.what_without_backtrace()));
  }
}

std::vector<std::string> saved_generators(const Checkpoint& checkpoint) {
  std::vector<std::string> states;
  while (const NamedArray* array = checkpoint.arrays.find(generator_key(states.size())))
    states.emplace_back(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size());
  return states;
}

std::string generator_state() {
  const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  return {static_cast<const char*>(state.data_ptr()), state.nbytes()};
}

void set_generator_state(const std::string& bytes) {
  torch::Tensor state = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kByte);
  std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

}  // namespace paceline
