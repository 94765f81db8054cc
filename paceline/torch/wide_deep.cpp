// Wide & deep learning (Cheng et al. 2016): a linear model over categories, which remembers, and an MLP over their
// embeddings, which generalises, trained together towards one logit. As in the paper the wide part is trained by FTRL
// and the embeddings by AdaGrad, here on the servers that keep both; the rest is the plan's. A step moves (width + 1)
// floats per different key of a batch, once each way.
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "paceline/core/error.hpp"
#include "paceline/torch/model_makers.hpp"
#include "paceline/torch/model_tables.hpp"

namespace paceline {
namespace {

constexpr std::size_t kDeepTable = 0, kWideTable = 1;
constexpr int kDeepWidths[] = {64, 32};

std::vector<TableSpec> tables_of(int width) {
  return {
      {.name = "embeddings", .width = static_cast<std::uint32_t>(width), .rule = "adagrad:0.05", .init = "normal:0.05"},
      {.name = "wide", .width = 1, .rule = "ftrl:0.05,l1=0.0001"}};
}

struct WideDeepImpl : torch::nn::Module {
  WideDeepImpl(const Form& of, int width) : form(of), tables(std::make_shared<ModelTables>(tables_of(width))) {
    const int numbers = form.shape.width;
    wide = register_module("wide", torch::nn::Linear(numbers, 1));
    int inputs = form.keys * width + numbers;
    for (const int outputs : kDeepWidths) {
      deep->push_back(torch::nn::Linear(inputs, outputs));
      deep->push_back(torch::nn::ReLU());
      inputs = outputs;
    }
    deep->push_back(torch::nn::Linear(inputs, 1));
    register_module("deep", deep);
  }

  // {0, logit}: their cross entropy is the logistic loss of the logit.
  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor keys = input.narrow(1, 0, form.keys);
    const torch::Tensor numbers = input.narrow(1, form.keys, form.shape.width).view(torch::kDouble).to(torch::kFloat);
    const torch::Tensor weights = tables->forward(kWideTable, keys).flatten(1).sum(1, true);
    const torch::Tensor embedded = tables->forward(kDeepTable, keys).flatten(1);
    const torch::Tensor logit = wide(numbers) + weights + deep->forward(torch::cat({embedded, numbers}, 1));
    return torch::cat({torch::zeros_like(logit), logit}, 1);
  }

  const Form form;
  const std::shared_ptr<ModelTables> tables;
  torch::nn::Linear wide = nullptr;
  torch::nn::Sequential deep;
};
TORCH_MODULE(WideDeep);

}  // namespace

Model make_wide_deep(const ModelSpec& spec, const Form& form, const ModelOptions&) {
  if (form.classes != 2)
    throw Error(Code::invalid, fmt::format("{} tells two classes apart, and there are {}", spec.text(), form.classes));
  WideDeep net(form, spec.sizes.at(0));
  Model model = model_of(net);
  model.tables = net->tables;
  return model;
}

}  // namespace paceline
