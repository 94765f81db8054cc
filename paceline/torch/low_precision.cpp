#include "paceline/torch/low_precision.hpp"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/quantized/PackedParams.h>
#include <torch/library.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <unordered_map>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// Note [Linear layers in int8]. A C++ module calls its layers by their types, so that none can be exchanged for a
// quantized one. What a linear layer calls in LibTorch's C++ is addmm, or matmul without a bias or with more than two
// dimensions, of its weight transposed. Their kernels for a dispatch key that nothing else uses are ours, from the
// first such model to the process's end, and the key is set only while such a model predicts: a weight that was packed
// takes the int8 way, everything else falls through to where it went before.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

using Packed = c10::intrusive_ptr<LinearPackedParamsBase>;
using PackedByWeight = std::unordered_map<const void*, Packed>;  // by where the weight lies

// Of the model that this thread is going through.
thread_local const PackedByWeight* t_packed = nullptr;

class Entered {
 public:
  explicit Entered(const PackedByWeight& packed) : guard_(kKey) { t_packed = &packed; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() { t_packed = nullptr; }

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

// nullptr unless `matrix` is a packed weight, transposed.
LinearPackedParamsBase* packed_of(const torch::Tensor& matrix) {
  if (t_packed == nullptr || matrix.dim() != 2 || matrix.stride(0) != 1) return nullptr;
  const auto found = t_packed->find(matrix.data_ptr());
  return found == t_packed->end() ? nullptr : found->second.get();
}

// Activations take seven bits: with eight, the sum of two products overflows the 16 bits in which machines without VNNI
// instructions keep it, and saturates.
torch::Tensor product(LinearPackedParamsBase& packed, const torch::Tensor& input, std::int64_t outputs) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes.back() = outputs;
  return packed.apply_dynamic(input.reshape({-1, input.size(-1)}).contiguous(), true).reshape(sizes);
}

torch::Tensor addmm(const torch::Tensor& bias, const torch::Tensor& input, const torch::Tensor& matrix,
                    const torch::Scalar& beta, const torch::Scalar& alpha) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  const bool plain = beta.to<double>() == 1 && alpha.to<double>() == 1;
  if (auto* packed = packed_of(matrix); packed != nullptr && plain)
    return product(*packed, input, matrix.size(1)).add_(bias);
  return at::addmm(bias, input, matrix, beta, alpha);
}

torch::Tensor matmul(const torch::Tensor& input, const torch::Tensor& matrix) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  if (auto* packed = packed_of(matrix); packed != nullptr) return product(*packed, input, matrix.size(1));
  return at::matmul(input, matrix);
}

Packed pack(const torch::Tensor& weight) {
  constexpr double kLargest = 127;
  const double scale = std::max(weight.abs().max().item<double>() / kLargest, 1e-12);
  const torch::Tensor rounded = at::quantize_per_tensor(weight, scale, 0, torch::kQInt8);
  static const auto prepack = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("quantized::linear_prepack", "")
                                  .typed<Packed(torch::Tensor, c10::optional<torch::Tensor>)>();
  return prepack.call(rounded, c10::nullopt);
}

// oneDNN's kernels, or those that this LibTorch was built with.
void choose_engine() {
  const auto& engines = at::Context::supportedQEngines();
  const auto has = [&](at::QEngine engine) {
    return std::find(engines.begin(), engines.end(), engine) != engines.end();
  };
  for (const at::QEngine engine : {at::QEngine::X86, at::QEngine::FBGEMM, at::QEngine::ONEDNN, at::QEngine::QNNPACK}) {
    if (!has(engine)) continue;
    at::globalContext().setQEngine(engine);
    return;
  }
  throw Error(Code::invalid, "this LibTorch was built without kernels for int8; --precision fp32 works");
}

class Registration {
 public:
  Registration() {
    all_.fallback(torch::CppFunction::makeFallthrough());
    some_.impl("addmm", addmm);
    some_.impl("matmul", matmul);
  }

 private:
  torch::Library all_{torch::Library::IMPL, "_", kKey, __FILE__, __LINE__};
  torch::Library some_{torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__};
};

class QuantizedLayers {
 public:
  explicit QuantizedLayers(Model model) : model_(std::move(model)) {
    choose_engine();
    for (const auto& module : model_.module->modules()) {
      if (const auto* layer = module->as<torch::nn::LinearImpl>())
        packed_.emplace(layer->weight.data_ptr(), pack(layer->weight.detach().contiguous()));
    }
    if (packed_.empty()) throw Error(Code::invalid, "the model has no linear layer that could be quantized to int8");
    static const Registration once;
  }
  torch::Tensor forward(const torch::Tensor& input) const {
    const Entered here(packed_);
    return model_.forward(input);
  }

 private:
  const Model model_;
  PackedByWeight packed_;
};

}  // namespace

Model in_precision(Model model, Precision precision) {
  if (precision == Precision::fp32) return model;
  const std::shared_ptr<torch::nn::Module> module = model.module;
  if (precision == Precision::bf16) {
    module->to(torch::kBFloat16);
    return {.module = module, .forward = [forward = model.forward](const torch::Tensor& input) {
              const bool numbers = input.is_floating_point();
              return forward(numbers ? input.to(torch::kBFloat16) : input).to(torch::kFloat);
            }};
  }
  auto layers = std::make_shared<QuantizedLayers>(std::move(model));  // shared: a std::function must be copyable
  return {.module = module, .forward = [layers](const torch::Tensor& input) { return layers->forward(input); }};
}

}  // namespace paceline
