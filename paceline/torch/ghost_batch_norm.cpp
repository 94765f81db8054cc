#include "paceline/torch/ghost_batch_norm.hpp"

#include "paceline/torch/activation_checkpoint.hpp"

namespace paceline {

namespace {

constexpr double kMomentum = 0.1;  // both as torch's
constexpr double kEpsilon = 1e-5;

}  // namespace

GhostBatchNorm2dImpl::GhostBatchNorm2dImpl(int channels, int ghost_batch)
    : weight(register_parameter("weight", torch::ones({channels}))),
      bias(register_parameter("bias", torch::zeros({channels}))),
      running_mean(register_buffer("running_mean", torch::zeros({channels}))),
      running_var(register_buffer("running_var", torch::ones({channels}))),
      num_batches_tracked(register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong))),
      ghost_batch_(ghost_batch) {}

torch::Tensor GhostBatchNorm2dImpl::forward(const torch::Tensor& input) {
  const std::int64_t examples = input.size(0);
  if (!is_training() || ghost_batch_ == 0 || examples <= ghost_batch_) return normalise(input);
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& ghost : input.tensor_split((examples + ghost_batch_ - 1) / ghost_batch_))
    parts.push_back(normalise(ghost));
  return torch::cat(parts);
}

torch::Tensor GhostBatchNorm2dImpl::normalise(const torch::Tensor& input) {
  const bool learn = is_training() && input.numel() > input.size(1);
  const bool count = learn && !recomputing();
  if (count) num_batches_tracked += 1;
  // Statistics that are not given are not updated, and not needed where the batch has its own.
  const torch::Tensor none;
  return torch::batch_norm(input, weight, bias, count || !learn ? running_mean : none,
                           count || !learn ? running_var : none, learn, kMomentum, kEpsilon,
                           /*cudnn_enabled=*/false);
}

}  // namespace paceline
