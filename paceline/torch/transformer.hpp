// A decoder-only transformer (Vaswani et al. 2017) in the form of GPT-2 (Radford et al. 2019): pre-norm, causal,
// learned positions, a GELU layer of four times the width in each block.
//
// Differs from GPT-2 in its head, which is not tied to the embedding: of a few dozen characters that saves nothing, and
// each parameter then belongs to one layer. Names are those of GPT-2's own code (wte, wpe, h.0.attn.c_attn, …, ln_f),
// with weights as [out, in].
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

namespace paceline {

struct TransformerOptions {
  int layers = 4;
  int width = 256;
  int heads = 4;  // divide the width
  int characters = 0;
  int length = 0;      // of a window: the most characters that forward takes
  double dropout = 0;  // of embeddings, attention and residuals, as GPT-2 does
  bool checkpoint_activations = false;
};

class TransformerImpl : public torch::nn::Module {
 public:
  explicit TransformerImpl(const TransformerOptions& options);
  // [batch, length] to [batch, length, characters]; Error{invalid} if the length is more than the window's.
  torch::Tensor forward(const torch::Tensor& characters);

 private:
  void initialise();

  const TransformerOptions options_;
  torch::nn::Embedding wte_;
  torch::nn::Embedding wpe_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm ln_f_;
  torch::nn::Linear lm_head_;
  torch::Tensor mask_;  // [1, length, length]: what a position must not see is minus infinity. Not a buffer: no weight
};
TORCH_MODULE(Transformer);

}  // namespace paceline
