#include "paceline/torch/trust_ratio.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/torch/fused_kernels.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {

bool has_trust_ratio(const torch::Tensor& parameter) { return parameter.dim() > 1; }

SquareSums sum_over_blocks(std::int64_t total,
                           const std::function<SquareSums(std::int64_t first, std::int64_t count)>& block) {
  constexpr std::int64_t kBlocksPerThread = 16;  // at least: below that a second thread costs more than it saves
  std::vector<SquareSums> sums(static_cast<std::size_t>((total + kNormBlock - 1) / kNormBlock));
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), kBlocksPerThread,
                   [&](std::int64_t from, std::int64_t to) {
                     for (std::int64_t i = from; i < to; ++i) {
                       const std::int64_t first = i * kNormBlock;
                       sums[static_cast<std::size_t>(i)] = block(first, std::min(kNormBlock, total - first));
                     }
                   });
  SquareSums all;
  for (const SquareSums& sum : sums) {
    all.parameter += sum.parameter;
    all.direction += sum.direction;
  }
  return all;
}

double norm_of(const TensorView& values) {
  if (values.dtype != DType::f32 && values.dtype != DType::f64)
    throw Error(Code::invalid, fmt::format("a norm is of f32 or f64, not of {}", name(values.dtype)));
  const auto block = [&](std::int64_t first, std::int64_t count) -> SquareSums {
    const auto n = static_cast<std::size_t>(count);
    if (values.dtype == DType::f64) return {square_sum(static_cast<const double*>(values.data) + first, n), 0};
    return {square_sum(static_cast<const float*>(values.data) + first, n), 0};
  };
  return std::sqrt(sum_over_blocks(values.count, block).parameter);
}

double norm_of(const torch::Tensor& tensor) {
  const auto type = tensor.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const torch::Tensor wide = tensor.detach().to(type);
  return norm_of(view_of(wide.is_non_overlapping_and_dense() ? wide : wide.contiguous(), "the tensor of a norm"));
}

}  // namespace paceline
