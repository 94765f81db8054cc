#include "paceline/torch/script_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/torch/model_makers.hpp"

namespace paceline {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Code::invalid, fmt::format("model script:{}: {}", path, why));
}

torch::jit::Module load_script(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) refuse(path, "there is no such file");
  try {
    return torch::jit::load(path, torch::kCPU);
  } catch (const std::exception&) {  // its reasons speak of zip archives
    refuse(path, "this is not TorchScript; torch.jit.save in Python and torch::jit::Module::save in C++ write it");
  }
}

// A failing script says where, line by line, and last the reason.
std::string reason_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  constexpr std::string_view kMark = "Error: ";
  if (const std::size_t mark = text.rfind(kMark); mark != std::string::npos) text.erase(0, mark + kMark.size());
  return text.substr(0, text.find('\n'));
}

// torch wants names without dots, so modules within the script become modules within the model.
void register_tensors(torch::nn::Module& into, const torch::jit::Module& script, std::set<const void*>& seen) {
  for (const auto& item : script.named_parameters(/*recurse=*/false)) {
    if (seen.insert(item.value.unsafeGetTensorImpl()).second)
      into.register_parameter(item.name, item.value, item.value.requires_grad());
  }
  for (const auto& item : script.named_buffers(/*recurse=*/false)) {
    if (seen.insert(item.value.unsafeGetTensorImpl()).second) into.register_buffer(item.name, item.value);
  }
  for (const auto& item : script.named_children()) {
    const auto child = into.register_module(item.name, std::make_shared<torch::nn::Module>(item.name));
    register_tensors(*child, item.value, seen);
  }
}

std::vector<std::int64_t> answer_shape(const Form& form) {
  if (form.kind == Kind::text) return {1, form.shape.width, form.outputs()};
  return {1, form.outputs()};
}

const ScriptModelImpl* as_script(const Model& model) {
  return dynamic_cast<const ScriptModelImpl*>(model.module.get());
}

}  // namespace

ScriptModelImpl::ScriptModelImpl(const std::string& path, const Form& form) : script_(load_script(path)) {
  if (!script_.find_method("forward"))
    refuse(path, "there is no forward in it; torch::save writes weights alone, torch::jit::Module::save a script");
  std::set<const void*> seen;
  register_tensors(*this, script_, seen);
  if (parameters().empty()) refuse(path, "it has no parameters to train; a script that was frozen has none");
  const std::vector<torch::Tensor> all = parameters();
  if (std::none_of(all.begin(), all.end(), [](const torch::Tensor& one) { return one.requires_grad(); }))
    refuse(path, "none of its parameters requires gradients");
  try_out(path, form);
  train();
}

void ScriptModelImpl::try_out(const std::string& path, const Form& form) {
  const torch::NoGradGuard no_grad;
  eval();  // one example is too few for batch norm in training
  const torch::Tensor example = example_of(form);
  torch::Tensor answer;
  try {
    answer = forward(example);
  } catch (const std::exception& error) {
    refuse(path,
           fmt::format("forward fails on an example of [{}]: {}", fmt::join(example.sizes(), ", "), reason_of(error)));
  }
  const std::vector<std::int64_t> wanted = answer_shape(form);
  if (answer.sizes() != wanted) {
    refuse(path, fmt::format("forward makes [{}] of one example, where these data need [{}]",
                             fmt::join(answer.sizes(), ", "), fmt::join(wanted, ", ")));
  }
}

torch::Tensor ScriptModelImpl::forward(const torch::Tensor& input) {
  const torch::jit::GraphOptimizerEnabledGuard one_by_one(false);
  const torch::jit::IValue answer = script_.forward({input});
  if (!answer.isTensor())
    throw Error(Code::invalid, fmt::format("the script answers with a {}, not with a tensor", answer.tagKind()));
  return answer.toTensor();
}

void ScriptModelImpl::train(bool on) {
  torch::nn::Module::train(on);
  script_.train(on);
}

bool is_script(const Model& model) { return as_script(model) != nullptr; }

void save_script(const Model& model, const std::string& path) {
  const ScriptModelImpl* script = as_script(model);
  TORCH_INTERNAL_ASSERT(script != nullptr, "only a script can be saved as one");
  std::ostringstream stream;
  script->script().save(stream);
  write_atomically(path, std::move(stream).str());
}

Model make_script(const ModelSpec& spec, const Form& form, const ModelOptions&) {
  return model_of(ScriptModel(spec.file, form));
}

}  // namespace paceline
