#include "paceline/torch/sync_batch_norm.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/torch/tensor_collectives.hpp"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// All dimensions but that of the features.
std::vector<std::int64_t> others(const torch::Tensor& input) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t d = 2; d < input.dim(); ++d) dimensions.push_back(d);
  return dimensions;
}

// A value per feature, so that it can be multiplied with the input.
torch::Tensor spread(const torch::Tensor& per_feature, const torch::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = per_feature.numel();
  return per_feature.to(input.scalar_type()).view(shape);
}

struct Statistics {  // in double precision
  torch::Tensor mean;
  torch::Tensor variance;  // biased
  double count = 0;        // values per feature
};

// Sums and sums of squares in double precision, so that taking the mean's square off loses nothing that single
// precision had. A rank's own are taken from its mean and variance, for the same reason.
Statistics statistics_of(Communicator& communicator, const torch::Tensor& input) {
  const std::int64_t features = input.size(1);
  torch::Tensor sums = torch::zeros({2 * features + 1}, torch::kDouble);
  const auto own_count = static_cast<double>(features == 0 ? 0 : input.numel() / features);
  if (own_count > 0) {
    const auto [variance, mean] = torch::var_mean(input, others(input), /*unbiased=*/false);
    const torch::Tensor own_mean = mean.to(torch::kDouble);
    sums.narrow(0, 0, features).copy_(own_mean * own_count);
    sums.narrow(0, features, features).copy_((variance.to(torch::kDouble) + own_mean.pow(2)) * own_count);
    sums[2 * features] = own_count;
  }
  allreduce(communicator, sums, ReduceOp::sum, {.name = "batch statistics"});
  const auto count = sums[2 * features].item<double>();
  if (count < 2) {
    throw Error(Code::invalid, fmt::format("SyncBatchNorm: all ranks together have {} value per feature; a variance "
                                           "needs two",
                                           count));
  }
  const torch::Tensor mean = sums.narrow(0, 0, features) / count;
  const torch::Tensor variance = (sums.narrow(0, features, features) / count - mean.pow(2)).clamp_min(0);
  return {mean, variance, count};
}

// y = (x - mean) / deviation * weight + bias, where mean and deviation depend on all ranks' x. Backward, with dy the
// gradient of y and h = (x - mean) / deviation, by Ioffe & Szegedy 2015, section 3, for sums over all ranks:
//   dx = weight / deviation * (dy - sum(dy) / count - h * sum(dy * h) / count)
// The gradients of weight and bias are this rank's sums, as those of any other layer.
struct Normalise : torch::autograd::Function<Normalise> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias, const torch::Tensor& mean, const torch::Tensor& inverse,
                               double count, Communicator* communicator) {
    context->save_for_backward({input, weight, mean, inverse});
    context->saved_data["count"] = count;
    // A graph has no place for a pointer of ours; sync_batch_norm.hpp says how long it must hold.
    context->saved_data["communicator"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(communicator));
    return (input - spread(mean, input)) * spread(inverse * weight.to(torch::kDouble), input) + spread(bias, input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const double count = context->saved_data["count"].toDouble();
    auto* communicator =
        reinterpret_cast<Communicator*>(static_cast<std::intptr_t>(context->saved_data["communicator"].toInt()));
    const torch::Tensor& dy = gradients[0];
    const torch::Tensor h = (input - spread(mean, input)) * spread(inverse, input);
    const torch::Tensor own = torch::stack(
        {dy.sum(others(input), false, torch::kDouble), (dy * h).sum(others(input), false, torch::kDouble)});
    torch::Tensor sums = own.clone();
    allreduce(*communicator, sums, ReduceOp::sum, {.name = "gradients of batch statistics"});
    const torch::Tensor scale = inverse * weight.to(torch::kDouble);
    const torch::Tensor dx =
        (dy - spread(sums[0] / count, input) - h * spread(sums[1] / count, input)) * spread(scale, input);
    const torch::Tensor none;
    return {dx, own[1].to(weight.scalar_type()), own[0].to(weight.scalar_type()), none, none, none, none};
  }
};

void refuse_dimensions(const char* layer, const char* wanted, const torch::Tensor& input) {
  throw Error(Code::invalid, fmt::format("{} takes inputs of {} dimensions, not of {}", layer, wanted, input.dim()));
}

template <class Layer>
bool give(torch::nn::Module& module, Communicator* communicator) {
  auto* layer = module.as<Layer>();
  if (layer == nullptr) return false;
  layer->synchronise(communicator);
  return true;
}

bool is_plain(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr || module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm3dImpl>() != nullptr;
}

}  // namespace

template <std::size_t Dimensions, class Derived>
torch::Tensor SyncBatchNormImplBase<Dimensions, Derived>::forward(const torch::Tensor& input) {
  this->_check_input_dim(input);
  const bool of_the_batch = this->is_training() || !this->options.track_running_stats();
  if (of_the_batch && communicator_ != nullptr) return normalise_over_ranks(input);
  const double factor = this->is_training() && this->options.track_running_stats() ? count_batch() : 0;
  return torch::batch_norm(input, this->weight, this->bias, this->running_mean, this->running_var, of_the_batch, factor,
                           this->options.eps(), /*cudnn_enabled=*/false);
}

template <std::size_t Dimensions, class Derived>
torch::Tensor SyncBatchNormImplBase<Dimensions, Derived>::normalise_over_ranks(const torch::Tensor& input) {
  Statistics found;
  torch::Tensor inverse;
  {
    const torch::NoGradGuard no_grad;
    found = statistics_of(*communicator_, input);
    inverse = (found.variance + this->options.eps()).rsqrt();
    if (this->is_training() && this->options.track_running_stats()) {
      const double factor = count_batch();
      const torch::Tensor unbiased = found.variance * (found.count / (found.count - 1));
      this->running_mean.mul_(1 - factor).add_(found.mean.to(this->running_mean.scalar_type()), factor);
      this->running_var.mul_(1 - factor).add_(unbiased.to(this->running_var.scalar_type()), factor);
    }
  }
  // Functions take no undefined tensors.
  const torch::Tensor scale = this->weight.defined() ? this->weight : torch::ones({input.size(1)}, input.options());
  const torch::Tensor shift = this->bias.defined() ? this->bias : torch::zeros({input.size(1)}, input.options());
  return Normalise::apply(input, scale, shift, found.mean, inverse, found.count, communicator_);
}

// How much of the running statistics is the batch's: without a momentum they are the average of all batches so far.
template <std::size_t Dimensions, class Derived>
double SyncBatchNormImplBase<Dimensions, Derived>::count_batch() {
  this->num_batches_tracked.add_(1);
  const auto& momentum = this->options.momentum();
  return momentum ? *momentum : 1.0 / this->num_batches_tracked.template item<double>();
}

template <std::size_t Dimensions, class Derived>
void SyncBatchNormImplBase<Dimensions, Derived>::pretty_print(std::ostream& stream) const {
  stream << fmt::format("paceline::SyncBatchNorm{}d({}, eps={}, affine={}, track_running_stats={})", Dimensions,
                        this->options.num_features(), this->options.eps(), this->options.affine(),
                        this->options.track_running_stats());
}

template class SyncBatchNormImplBase<1, SyncBatchNorm1dImpl>;
template class SyncBatchNormImplBase<2, SyncBatchNorm2dImpl>;

void SyncBatchNorm1dImpl::_check_input_dim(const torch::Tensor& input) {
  if (input.dim() != 2 && input.dim() != 3) refuse_dimensions("SyncBatchNorm1d", "2 or 3", input);
}

void SyncBatchNorm2dImpl::_check_input_dim(const torch::Tensor& input) {
  if (input.dim() != 4) refuse_dimensions("SyncBatchNorm2d", "4", input);
}

int sync_batch_norm(torch::nn::Module& model, Communicator* communicator) {
  int layers = 0;
  const auto visit = [&](const std::string& name, torch::nn::Module& module) {
    if (communicator != nullptr && is_plain(module)) {
      throw Error(Code::invalid,
                  fmt::format("layer '{}' is a plain BatchNorm, which cannot be exchanged in a model that "
                              "is built; write paceline::SyncBatchNorm1d or 2d in its place",
                              name));
    }
    if (give<SyncBatchNorm1dImpl>(module, communicator) || give<SyncBatchNorm2dImpl>(module, communicator)) ++layers;
  };
  visit("the model itself", model);
  for (const auto& item : model.named_modules("", /*include_self=*/false)) visit(item.key(), *item.value());
  return layers;
}

}  // namespace paceline
