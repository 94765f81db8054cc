#include "paceline/torch/tensor_collectives.hpp"

#include <fmt/format.h>

#include <numeric>

#include "paceline/torch/tensor_view.hpp"

namespace paceline {
namespace {

// Runs `operate` on memory of the tensor's elements: its own where that is dense, a copy where not.
template <class Operate>
void in_place(torch::Tensor& tensor, const Operate& operate) {
  const torch::NoGradGuard no_grad;
  const bool direct = tensor.defined() && tensor.is_contiguous() && tensor.scalar_type() != torch::kBool;
  if (direct || !tensor.defined() || tensor.layout() != torch::kStrided) return operate(view_of(tensor));
  torch::Tensor copy =
      tensor.scalar_type() == torch::kBool ? tensor.to(torch::kByte).contiguous() : tensor.contiguous();
  operate(view_of(copy));
  tensor.copy_(copy);
}

// As `own`, with as many rows as `count` elements make.
std::vector<std::int64_t> shape_of_part(const torch::Tensor& own, std::int64_t count) {
  std::vector<std::int64_t> shape = own.sizes().vec();
  if (count == own.numel()) return shape;
  std::int64_t row = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) row *= shape[i];
  if (shape.empty() || row == 0 || count % row != 0) {
    throw Error(Code::mismatch, fmt::format("allgather: a rank has {} elements, which is not a whole number of rows of "
                                            "{}; all dimensions but the first must agree",
                                            count, row));
  }
  shape[0] = count / row;
  return shape;
}

}  // namespace

void allreduce(Communicator& communicator, torch::Tensor& tensor, ReduceOp op, const CollectiveOptions& options) {
  in_place(tensor, [&](TensorView view) { communicator.allreduce(view, op, options); });
}

void broadcast(Communicator& communicator, torch::Tensor& tensor, int root, const CollectiveOptions& options) {
  in_place(tensor, [&](TensorView view) { communicator.broadcast(view, root, options); });
}

std::vector<torch::Tensor> allgather(Communicator& communicator, const torch::Tensor& tensor,
                                     const CollectiveOptions& options) {
  const torch::Tensor own = tensor.detach().contiguous();
  const TensorView mine = view_of(own);
  const auto counts = gather_counts(communicator, mine.count, options);
  torch::Tensor all = torch::empty({std::accumulate(counts.begin(), counts.end(), std::int64_t{0})}, own.options());
  communicator.allgatherv(mine, view_of(all), counts, options);
  std::vector<torch::Tensor> parts;
  std::int64_t at = 0;
  for (const std::int64_t count : counts) {
    parts.push_back(all.narrow(0, at, count).view(shape_of_part(own, count)).clone());
    at += count;
  }
  return parts;
}

}  // namespace paceline
