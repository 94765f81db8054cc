// A learning task: what of a batch goes into a model, what should come out, and how far off it was. Which task it is
// follows from the form of the data.
#pragma once

#include <torch/types.h>

#include "paceline/data/batch.hpp"
#include "paceline/data/dataset.hpp"

namespace paceline {

// Sums over predictions, of which an example has one, or one for each character.
struct Tally {
  double loss = 0;
  double correct = 0;  // of classes
  double predictions = 0;

  double mean_loss() const { return predictions > 0 ? loss / predictions : 0; }
  double accuracy() const { return predictions > 0 ? correct / predictions : 0; }
  Tally& operator+=(const Tally& other);
};

// Tensors over the batch's own memory.
torch::Tensor inputs_of(const Batch& batch, const Form& form);
torch::Tensor answers_of(const Batch& batch, const Form& form);

// The mean over all predictions of the cross entropy or, where a number is to be predicted, of the squared error.
torch::Tensor loss_of(const torch::Tensor& outputs, const torch::Tensor& answers, const Form& form);
Tally tally_of(const torch::Tensor& loss, const torch::Tensor& outputs, const torch::Tensor& answers, const Form& form);

}  // namespace paceline
