// torch::Tensor and TensorView: the same memory in two vocabularies.
#pragma once

#include <torch/types.h>

#include <optional>

#include "paceline/core/tensor_view.hpp"

namespace paceline {

// nullopt for a type that paceline does not reduce (bool, complex, quantized).
std::optional<DType> dtype_of_torch(torch::ScalarType type);
torch::ScalarType torch_type(DType dtype);

// The tensor's memory. Throws Error{invalid} naming `what` for a tensor that is not dense, not contiguous, not in host
// memory or of another type.
TensorView view_of(const torch::Tensor& tensor, std::string_view what = "the tensor");

}  // namespace paceline
