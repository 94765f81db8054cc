// A character model of LSTM layers (Hochreiter & Schmidhuber 1997): an embedding as wide as the layers, the layers, a
// linear layer. Each window starts from a state of zeros.
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include "paceline/torch/model_makers.hpp"

namespace paceline {
namespace {

class CharacterLstmImpl : public torch::nn::Module {
 public:
  CharacterLstmImpl(int layers, int width, int characters)
      : embedding_(register_module("embedding", torch::nn::Embedding(characters, width))),
        lstm_(register_module(
            "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(width, width).num_layers(layers).batch_first(true)))),
        head_(register_module("head", torch::nn::Linear(width, characters))) {}

  torch::Tensor forward(const torch::Tensor& characters) {
    return head_->forward(std::get<0>(lstm_->forward(embedding_->forward(characters))));
  }

 private:
  torch::nn::Embedding embedding_;
  torch::nn::LSTM lstm_;
  torch::nn::Linear head_;
};
TORCH_MODULE(CharacterLstm);

}  // namespace

Model make_lstm(const ModelSpec& spec, const Form& form, const ModelOptions&) {
  return model_of(CharacterLstm(spec.sizes[0], spec.sizes[1], form.outputs()));
}

}  // namespace paceline
