#include "paceline/torch/tensor_view.hpp"

#include <fmt/format.h>

#include "paceline/core/error.hpp"

namespace paceline {

std::optional<DType> dtype_of_torch(torch::ScalarType type) {
  switch (type) {
    case torch::kHalf: return DType::f16;
    case torch::kBFloat16: return DType::bf16;
    case torch::kFloat: return DType::f32;
    case torch::kDouble: return DType::f64;
    case torch::kChar: return DType::i8;
    case torch::kByte: return DType::u8;
    case torch::kInt: return DType::i32;
    case torch::kLong: return DType::i64;
    default: return std::nullopt;
  }
}

torch::ScalarType torch_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return torch::kHalf;
    case DType::bf16: return torch::kBFloat16;
    case DType::f32: return torch::kFloat;
    case DType::f64: return torch::kDouble;
    case DType::i8: return torch::kChar;
    case DType::u8: return torch::kByte;
    case DType::i32: return torch::kInt;
    case DType::i64: return torch::kLong;
  }
  return torch::kByte;
}

TensorView view_of(const torch::Tensor& tensor, std::string_view what) {
  const auto refuse = [&](std::string_view why) { throw Error(Code::invalid, fmt::format("{} {}", what, why)); };
  if (!tensor.defined()) refuse("is undefined");
  if (!tensor.device().is_cpu()) refuse("is not in host memory; this build of paceline has no support for CUDA");
  if (tensor.layout() != torch::kStrided) refuse("is sparse; only dense tensors can be passed here");
  if (!tensor.is_non_overlapping_and_dense()) refuse("is not contiguous; pass tensor.contiguous()");
  const auto dtype = dtype_of_torch(tensor.scalar_type());
  if (!dtype) refuse(fmt::format("is of type {}, which paceline does not move", toString(tensor.scalar_type())));
  return {tensor.data_ptr(), tensor.numel(), *dtype, Device::host};
}

}  // namespace paceline
