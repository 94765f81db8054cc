#include "paceline/torch/sparse_gradients.hpp"

#include <torch/nn/modules/embedding.h>

#include "paceline/torch/tensor_collectives.hpp"

namespace paceline {
namespace {

void add_if_sparse(const torch::nn::Module& module, std::set<const void*>& found) {
  if (const auto* embedding = module.as<torch::nn::EmbeddingImpl>()) {
    if (embedding->options.sparse()) found.insert(embedding->weight.unsafeGetTensorImpl());
  }
  if (const auto* bag = module.as<torch::nn::EmbeddingBagImpl>()) {
    if (bag->options.sparse()) found.insert(bag->weight.unsafeGetTensorImpl());
  }
}

// No rows at all, in the form that the others' gradients have.
torch::Tensor empty_gradient(const torch::Tensor& parameter) {
  std::vector<std::int64_t> values = parameter.sizes().vec();
  values[0] = 0;
  return torch::sparse_coo_tensor(torch::empty({1, 0}, torch::kLong),
                                  torch::empty(values, parameter.detach().options()), parameter.sizes());
}

torch::Tensor rows_of(const torch::Tensor& parameter) {
  torch::Tensor gradient = parameter.grad();
  if (gradient.defined() && !gradient.is_sparse()) gradient = gradient.to_sparse(1);
  // A sparse tensor that has been zeroed is empty and has forgotten which of its dimensions are sparse.
  if (!gradient.defined() || gradient._nnz() == 0) gradient = empty_gradient(parameter);
  return gradient.coalesce();
}

}  // namespace

std::set<const void*> sparse_parameters(const torch::nn::Module& model) {
  std::set<const void*> found;
  for (const auto& module : model.modules(false)) add_if_sparse(*module, found);
  add_if_sparse(model, found);
  return found;
}

void average_sparse_gradient(Communicator& communicator, torch::Tensor parameter, const std::string& name,
                             int divisor) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor own = rows_of(parameter);
  const CollectiveOptions options{.name = name};
  const auto indices = allgather(communicator, own.indices().t().contiguous(), options);
  const auto values = allgather(communicator, own.values().contiguous(), options);
  const torch::Tensor all_indices = torch::cat(indices).t().contiguous();
  if (all_indices.numel() == 0 && !parameter.grad().defined()) return;
  // Coalescing sorts: equal rows are added in the order of the ranks.
  torch::Tensor sum = torch::sparse_coo_tensor(all_indices, torch::cat(values), parameter.sizes()).coalesce();
  sum = torch::sparse_coo_tensor(sum.indices(), sum.values() / divisor, parameter.sizes());
  parameter.mutable_grad() = sum._coalesced_(true);
}

}  // namespace paceline
