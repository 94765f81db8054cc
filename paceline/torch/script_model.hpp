// A user's TorchScript module as a torch::nn::Module: it can be trained by DataParallel, and saved, like any other.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/script.h>

#include <string>

#include "paceline/data/dataset.hpp"
#include "paceline/torch/models.hpp"

namespace paceline {

// Parameters and buffers are the script's own tensors under the script's own names, each once; what was frozen in the
// script stays so. It begins in training mode with the weights of the file. Operations run one by one, unoptimised, so
// that every step, also the first after a resumption, computes the same bits.
class ScriptModelImpl : public torch::nn::Module {
 public:
  // Error{invalid} in a sentence if the file is absent, no TorchScript, has no parameters or no forward, or if forward
  // does not make of one example of this form what Model says.
  ScriptModelImpl(const std::string& path, const Form& form);

  torch::Tensor forward(const torch::Tensor& input);
  void train(bool on = true) override;

  const torch::jit::Module& script() const { return script_; }

 private:
  void try_out(const std::string& path, const Form& form);

  torch::jit::Module script_;
};
TORCH_MODULE(ScriptModel);

bool is_script(const Model& model);
// The script with the weights that it has now, as torch::jit::load and Python's torch.jit.load read it. Atomic. The
// model is one for which is_script holds.
void save_script(const Model& model, const std::string& path);

}  // namespace paceline
