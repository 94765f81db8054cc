#include "paceline/torch/layer_costs.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "paceline/torch/replicas.hpp"

namespace paceline {
namespace {

using Values = c10::ArrayRef<const c10::IValue>;

double elements(const c10::IValue& value) { return static_cast<double>(value.toTensor().numel()); }
double first_side(const c10::IValue& value) { return static_cast<double>(value.toTensor().size(0)); }
double last_side(const c10::IValue& value) { return static_cast<double>(value.toTensor().size(-1)); }

// An element of the output is a sum over the left factor's last side ...
double of_product(Values inputs) { return 2 * last_side(inputs[0]); }
double of_added_product(Values inputs) { return 2 * last_side(inputs[1]); }
// ... or over the weights of its channel, [out, in, ...].
double of_convolution(Values inputs) { return 2 * elements(inputs[1]) / first_side(inputs[1]); }

// An element of the input, [batch, in, ...], meets the weights of its channel, [in, out, ...].
double of_transposed(Values inputs) { return 2 * elements(inputs[0]) * elements(inputs[1]) / first_side(inputs[1]); }

// A step multiplies with each matrix once. Of packed sequences the sizes of the batches come second.
double of_recurrent(Values inputs) {
  double weights = 0;
  for (const torch::Tensor& weight : inputs[inputs[3].isTensorList() ? 3 : 2].toTensorVector()) {
    if (weight.dim() == 2) weights += static_cast<double>(weight.numel());
  }
  return 2 * weights * elements(inputs[0]) / last_side(inputs[0]);
}

struct Operation {
  std::string_view name;
  double (*flops)(Values inputs);
  enum class For { each_output, all } counted_for;
};
constexpr auto kEach = Operation::For::each_output;
constexpr auto kAll = Operation::For::all;
constexpr Operation kOperations[] = {
    {"aten::linear", of_product, kEach},
    {"aten::matmul", of_product, kEach},
    {"aten::mm", of_product, kEach},
    {"aten::bmm", of_product, kEach},
    {"aten::addmm", of_added_product, kEach},
    {"aten::baddbmm", of_added_product, kEach},
    {"aten::conv1d", of_convolution, kEach},
    {"aten::conv2d", of_convolution, kEach},
    {"aten::conv3d", of_convolution, kEach},
    {"aten::conv_transpose1d", of_transposed, kAll},
    {"aten::conv_transpose2d", of_transposed, kAll},
    {"aten::conv_transpose3d", of_transposed, kAll},
    {"aten::lstm", of_recurrent, kAll},
    {"aten::gru", of_recurrent, kAll},
    {"aten::rnn_tanh", of_recurrent, kAll},
    {"aten::rnn_relu", of_recurrent, kAll},
};

const Operation* find_operation(std::string_view name) {
  const auto found = std::find_if(std::begin(kOperations), std::end(kOperations),
                                  [&](const Operation& known) { return known.name == name; });
  return found == std::end(kOperations) ? nullptr : found;
}

std::string module_around(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// Notes, while a forward pass runs on this thread, which layers' parameters its operations read and what they compute.
// A parameter is known by where its memory begins, so that a view of it (a transposed weight) is known as well.
class Recording {
 public:
  explicit Recording(const torch::nn::Module& module);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void begin(const at::RecordFunction& call);
  void end(const at::RecordFunction& call);
  std::vector<LayerCost> costs() const;

 private:
  const std::string* layer_read(Values inputs) const;  // nullptr: the inputs are no layer's parameters
  LayerCost& cost(const std::string& name);

  std::vector<LayerCost> layers_;                 // in the module's order, with their parameters
  std::map<const void*, std::string> by_memory_;  // layers' names
  std::vector<LayerCost> reached_;                // in the order of the pass
  std::string last_;                              // the layer that was read last
  int depth_ = 0;                                 // of counted operations: the outermost counts
  double flops_ = 0;                              // of the outermost, or of each element of its output
  std::string payer_;                             // and where it counts
  at::CallbackHandle handle_ = 0;
};

thread_local Recording* recording = nullptr;  // torch calls back plain functions

LayerCost* find(std::vector<LayerCost>& costs, const std::string& name) {
  const auto found = std::find_if(costs.begin(), costs.end(), [&](const LayerCost& cost) { return cost.name == name; });
  return found == costs.end() ? nullptr : &*found;
}

Recording::Recording(const torch::nn::Module& module) {
  for (const NamedTensor& item : distinct_parameters(module)) {
    const std::string name = module_around(item.name);
    if (find(layers_, name) == nullptr) layers_.push_back({.name = name});
    find(layers_, name)->parameters += item.tensor.numel();
    if (item.tensor.numel() > 0) by_memory_[item.tensor.data_ptr()] = name;
  }
  recording = this;
  at::RecordFunctionCallback callback(
      [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        recording->begin(call);
        return nullptr;
      },
      [](const at::RecordFunction& call, at::ObserverContext*) { recording->end(call); });
  handle_ =
      at::addThreadLocalCallback(callback.needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
}

Recording::~Recording() {
  at::removeCallback(handle_);
  recording = nullptr;
}

void Recording::begin(const at::RecordFunction& call) {
  const Operation* operation = find_operation(call.name());
  const bool outermost = depth_ == 0;
  if (operation != nullptr) ++depth_;
  if (!outermost) return;
  const std::string* layer = layer_read(call.inputs());
  if (layer != nullptr) cost(last_ = *layer);
  if (operation == nullptr) return;
  flops_ = operation->flops(call.inputs());  // the inputs are gone when the call ends
  payer_ = layer != nullptr ? *layer : module_around(last_);
}

void Recording::end(const at::RecordFunction& call) {
  const Operation* operation = find_operation(call.name());
  if (operation == nullptr || --depth_ > 0) return;
  const bool each = operation->counted_for == Operation::For::each_output;
  cost(payer_).flops += flops_ * (each ? elements(call.outputs().at(0)) : 1);
}

const std::string* Recording::layer_read(Values inputs) const {
  const std::string* layer = nullptr;
  for (const c10::IValue& input : inputs) {
    const auto tensors = input.isTensor()       ? std::vector<torch::Tensor>{input.toTensor()}
                         : input.isTensorList() ? input.toTensorVector()
                                                : std::vector<torch::Tensor>{};
    for (const torch::Tensor& tensor : tensors) {
      if (!tensor.defined() || !tensor.has_storage()) continue;
      if (const auto found = by_memory_.find(tensor.data_ptr()); found != by_memory_.end()) layer = &found->second;
    }
  }
  return layer;
}

LayerCost& Recording::cost(const std::string& name) {
  if (LayerCost* known = find(reached_, name)) return *known;
  const LayerCost* layer = find(layers_, name);
  return reached_.emplace_back(layer != nullptr ? *layer : LayerCost{.name = name});
}

std::vector<LayerCost> Recording::costs() const {
  std::vector<LayerCost> all = reached_;
  for (const LayerCost& layer : layers_) {
    if (find(all, layer.name) == nullptr) all.push_back(layer);
  }
  return all;
}

}  // namespace

std::vector<LayerCost> layer_costs(const Model& model, const Form& form) {
  const torch::NoGradGuard no_grad;
  const bool trained = model.module->is_training();
  model.module->eval();
  const torch::Tensor example = example_of(form);
  std::vector<LayerCost> costs;
  {
    Recording record(*model.module);
    model.forward(example);
    costs = record.costs();
  }
  model.module->train(trained);
  return costs;
}

}  // namespace paceline
