#include "paceline/torch/transformer.hpp"

#include <fmt/format.h>
#include <torch/nn/init.h>

#include <cmath>
#include <limits>

#include "paceline/core/error.hpp"
#include "paceline/torch/activation_checkpoint.hpp"
#include "paceline/torch/model_makers.hpp"

namespace paceline {
namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

LayerNorm layer_norm(int width) { return LayerNorm(LayerNormOptions({width})); }

// Activations go through the blocks as [batch * length, width]: a linear layer is then one product with its bias added
// on the way.
class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const TransformerOptions& options)
      : heads_(options.heads),
        dropout_(options.dropout),
        c_attn_(register_module("c_attn", Linear(options.width, 3 * options.width))),
        c_proj_(register_module("c_proj", Linear(options.width, options.width))) {}

  // mask: [1, length, length]
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& mask) {
    const std::int64_t length = mask.size(1);
    const std::int64_t batch = input.size(0) / length;
    const std::int64_t head_width = input.size(1) / heads_;
    // To query, key and value, each [batch * heads, length, head_width].
    const auto parts = c_attn_->forward(input)
                           .view({batch, length, 3, heads_, head_width})
                           .permute({2, 0, 3, 1, 4})
                           .reshape({3, batch * heads_, length, head_width})
                           .unbind(0);
    const double scale = 1 / std::sqrt(static_cast<double>(head_width));
    torch::Tensor weights = torch::baddbmm(mask, parts[0], parts[1].transpose(1, 2), 1, scale).softmax(-1);
    weights = torch::dropout(weights, dropout_, is_training());
    const torch::Tensor seen = torch::bmm(weights, parts[2]).view({batch, heads_, length, head_width});
    return c_proj_->forward(seen.transpose(1, 2).reshape({batch * length, heads_ * head_width}));
  }

 private:
  std::int64_t heads_;
  double dropout_;
  Linear c_attn_;
  Linear c_proj_;
};
TORCH_MODULE(Attention);

class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(int width)
      : c_fc_(register_module("c_fc", Linear(width, 4 * width))),
        c_proj_(register_module("c_proj", Linear(4 * width, width))) {}

  torch::Tensor forward(const torch::Tensor& input) { return c_proj_->forward(torch::gelu(c_fc_->forward(input))); }

 private:
  Linear c_fc_;
  Linear c_proj_;
};
TORCH_MODULE(Mlp);

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const TransformerOptions& options)
      : dropout_(options.dropout),
        ln_1_(register_module("ln_1", layer_norm(options.width))),
        attn_(register_module("attn", Attention(options))),
        ln_2_(register_module("ln_2", layer_norm(options.width))),
        mlp_(register_module("mlp", Mlp(options.width))) {}

  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& mask) {
    const torch::Tensor x = input + drop(attn_->forward(ln_1_->forward(input), mask));
    return x + drop(mlp_->forward(ln_2_->forward(x)));
  }

 private:
  torch::Tensor drop(const torch::Tensor& x) { return torch::dropout(x, dropout_, is_training()); }

  double dropout_;
  LayerNorm ln_1_;
  Attention attn_;
  LayerNorm ln_2_;
  Mlp mlp_;
};
TORCH_MODULE(Block);

torch::Tensor causal_mask(int length) {
  return torch::full({1, length, length}, -std::numeric_limits<float>::infinity()).triu(1);
}

}  // namespace

TransformerImpl::TransformerImpl(const TransformerOptions& options)
    : options_(options),
      wte_(register_module("wte", torch::nn::Embedding(options.characters, options.width))),
      wpe_(register_module("wpe", torch::nn::Embedding(options.length, options.width))),
      blocks_(register_module("h", torch::nn::ModuleList())),
      ln_f_(nullptr),
      lm_head_(nullptr),
      mask_(causal_mask(options.length)) {
  for (int i = 0; i < options.layers; ++i) blocks_->push_back(Block(options));
  ln_f_ = register_module("ln_f", layer_norm(options.width));
  lm_head_ =
      register_module("lm_head", Linear(torch::nn::LinearOptions(options.width, options.characters).bias(false)));
  initialise();
}

// GPT-2's: normal with 0.02, biases zero; the layers that end in the residual path 1/sqrt(2 layers) of that, so that
// what 2 layers additions make of it does not grow with the depth.
void TransformerImpl::initialise() {
  constexpr double kDeviation = 0.02;
  const double residual = kDeviation / std::sqrt(2.0 * options_.layers);
  for (const auto& item : named_parameters()) {
    const std::string& name = item.key();
    const bool norm = name.find("ln_") != std::string::npos;
    const bool bias = name.ends_with("bias");
    if (norm) continue;  // torch's: ones and zeros
    if (bias) {
      torch::nn::init::zeros_(item.value());
    } else {
      const bool ends_branch = name.find("c_proj") != std::string::npos;
      torch::nn::init::normal_(item.value(), 0, ends_branch ? residual : kDeviation);
    }
  }
}

torch::Tensor TransformerImpl::forward(const torch::Tensor& characters) {
  const std::int64_t batch = characters.size(0);
  const std::int64_t length = characters.size(1);
  if (length > options_.length) {
    throw Error(Code::invalid,
                fmt::format("the transformer takes at most {} characters at once, not {}", options_.length, length));
  }
  torch::Tensor x = wte_->forward(characters);
  x = torch::dropout(x + wpe_->forward(torch::arange(length)), options_.dropout, is_training());
  x = x.view({batch * length, options_.width});
  const torch::Tensor mask = mask_.narrow(1, 0, length).narrow(2, 0, length).to(x.scalar_type());
  for (const auto& module : *blocks_) {
    const auto run = [block = module, mask](const torch::Tensor& in) {
      return block->as<BlockImpl>()->forward(in, mask);
    };
    x = options_.checkpoint_activations ? checkpoint(run, x) : run(x);
  }
  return lm_head_->forward(ln_f_->forward(x)).view({batch, length, options_.characters});
}

Model make_transformer(const ModelSpec& spec, const Form& form, const ModelOptions& options) {
  return model_of(Transformer(TransformerOptions{.layers = spec.sizes[0],
                                                 .width = spec.sizes[1],
                                                 .heads = spec.sizes[2],
                                                 .characters = form.outputs(),
                                                 .length = form.shape.width,
                                                 .checkpoint_activations = options.checkpoint_activations}));
}

}  // namespace paceline
