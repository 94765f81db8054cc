// The optimizers of `paceline train`, by name. Each has a fused form (fused_optimizer.hpp).
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "paceline/torch/optimizer_spec.hpp"

namespace paceline {

// Throws Error{invalid} for what check_optimizer refuses.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerSpec& spec,
                                                        std::vector<torch::Tensor> parameters);

}  // namespace paceline
