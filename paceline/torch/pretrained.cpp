#include "paceline/torch/pretrained.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/serialize.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "paceline/core/error.hpp"
#include "paceline/record/safetensors.hpp"
#include "paceline/torch/replicas.hpp"

namespace paceline {
namespace {

using Weights = std::map<std::string, torch::Tensor>;

torch::ScalarType type_of(const std::string& path, const NamedArray& array) {
  static const std::map<std::string_view, torch::ScalarType> types = {
      {"F32", torch::kFloat},     {"F64", torch::kDouble}, {"F16", torch::kHalf},
      {"BF16", torch::kBFloat16}, {"I64", torch::kLong},   {"I32", torch::kInt},
      {"I8", torch::kChar},       {"U8", torch::kByte},    {"BOOL", torch::kBool},
  };
  const auto type = types.find(array.dtype);
  if (type != types.end()) return type->second;
  throw Error(Code::invalid, fmt::format("{}: '{}' is of type {}, which is not read", path, array.name, array.dtype));
}

Weights read_safetensors(const std::string& path) {
  const SafetensorsFile file(path);
  Weights weights;
  for (const NamedArray& array : file.arrays()) {
    torch::Tensor tensor = torch::empty(array.shape, type_of(path, array));
    if (!array.bytes.empty()) std::memcpy(tensor.data_ptr(), array.bytes.data(), array.bytes.size());
    weights[array.name] = tensor;
  }
  return weights;
}

void collect(torch::serialize::InputArchive& archive, const std::string& prefix, Weights& weights) {
  for (const std::string& key : archive.keys()) {
    c10::IValue value;
    archive.read(key, value);
    torch::serialize::InputArchive inner;
    if (value.isTensor()) {
      weights[prefix + key] = value.toTensor();
    } else if (archive.try_read(key, inner)) {
      collect(inner, prefix + key + ".", weights);
    }
  }
}

Weights read_saved_module(const std::string& path) {
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(path, torch::kCPU);
    Weights weights;
    collect(archive, "", weights);
    return weights;
  } catch (const std::exception&) {  // its reasons speak of zip archives
    throw Error(Code::invalid, path + " was not written by torch::save; save weights of Python's as .safetensors");
  }
}

Weights read_weights(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw Error(Code::invalid, path + ": there is no such file of weights");
  if (path.ends_with(".safetensors")) return read_safetensors(path);
  if (path.ends_with(".pt")) return read_saved_module(path);
  throw Error(Code::invalid, path + ": weights are read from .safetensors and .pt");
}

// Which names belong to the last layer, and to the part of the model that it ends.
struct Head {
  explicit Head(const std::vector<NamedTensor>& parameters) {
    if (parameters.empty()) return;
    const std::string& last = parameters.back().name;
    layer = last.substr(0, last.rfind('.') + 1);
    part = last.substr(0, last.find('.') + 1);
  }
  std::string layer;  // "classifier.6."
  std::string part;   // "classifier."
};

bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

struct Assignment {
  torch::Tensor target;
  torch::Tensor source;
};

// What goes where; what does not fit is refused before anything is changed.
class Matching {
 public:
  Matching(const Model& model, const std::string& path, bool allow_new_head)
      : path_(path),
        allow_new_head_(allow_new_head),
        parameters_(distinct_parameters(*model.module)),
        head_(parameters_),
        weights_(read_weights(path)) {
    for (const NamedTensor& item : parameters_) match(item);
    for (const NamedTensor& item : distinct_buffers(*model.module)) match(item);
    for (const auto& [name, tensor] : weights_) require_used(name, *model.module);
  }

  void apply() const {
    const torch::NoGradGuard no_grad;
    for (const Assignment& assignment : assignments_) assignment.target.detach().copy_(assignment.source);
  }

  const std::vector<std::string>& left() const { return left_; }

 private:
  void match(const NamedTensor& item) {
    const auto found = weights_.find(item.name);
    if (found == weights_.end()) {
      if (is_counter(item.name)) return;  // older files have none, and nothing depends on it
      throw Error(Code::invalid, fmt::format("{} has no '{}', which the model needs", path_, item.name));
    }
    const torch::Tensor& source = found->second;
    if (source.sizes() == item.tensor.sizes()) {
      assignments_.push_back({item.tensor, source});
    } else if (allow_new_head_ && item.name.starts_with(head_.layer)) {
      left_.push_back(item.name);
    } else {
      throw Error(Code::invalid, fmt::format("{}: '{}' is [{}] in the file and [{}] in the model", path_, item.name,
                                             fmt::join(source.sizes(), ", "), fmt::join(item.tensor.sizes(), ", ")));
    }
  }

  // A tensor that the model has under two names may be in the file under both. Around a new head the file may have
  // layers of its own.
  void require_used(const std::string& name, const torch::nn::Module& model) const {
    if (!left_.empty() && name.starts_with(head_.part)) return;
    if (model.named_parameters().contains(name) || model.named_buffers().contains(name)) return;
    throw Error(Code::invalid, fmt::format("{} has a '{}', which the model has not", path_, name));
  }

  const std::string& path_;
  const bool allow_new_head_;
  const std::vector<NamedTensor> parameters_;
  const Head head_;
  const Weights weights_;
  std::vector<Assignment> assignments_;
  std::vector<std::string> left_;
};

}  // namespace

std::vector<std::string> load_weights(const Model& model, const std::string& path, bool allow_new_head) {
  const Matching matching(model, path, allow_new_head);
  matching.apply();
  return matching.left();
}

}  // namespace paceline
