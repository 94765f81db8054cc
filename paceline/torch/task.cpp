#include "paceline/torch/task.hpp"

#include <torch/nn/functional/loss.h>

namespace paceline {
namespace {

// from_blob takes no pointer to const; nobody writes.
template <class T>
T* memory(const std::vector<T>& values) {
  return const_cast<T*>(values.data());
}

torch::Tensor rows(const torch::Tensor& outputs, const Form& form) { return outputs.reshape({-1, form.outputs()}); }

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  loss += other.loss;
  correct += other.correct;
  predictions += other.predictions;
  return *this;
}

torch::Tensor inputs_of(const Batch& batch, const Form& form) {
  const auto n = static_cast<std::int64_t>(batch.size());
  const Shape& shape = form.shape;
  if (form.kind == Kind::text) return torch::from_blob(memory(batch.tokens), {n, shape.width}, torch::kLong);
  if (form.kind == Kind::keyed)
    return torch::from_blob(memory(batch.tokens), {n, form.keys + shape.width}, torch::kLong);
  return torch::from_blob(memory(batch.values), {n, shape.channels, shape.height, shape.width});
}

torch::Tensor answers_of(const Batch& batch, const Form& form) {
  if (form.classes == 0)
    return torch::from_blob(memory(batch.targets), {static_cast<std::int64_t>(batch.targets.size())});
  return torch::from_blob(memory(batch.labels), {static_cast<std::int64_t>(batch.labels.size())}, torch::kLong);
}

torch::Tensor loss_of(const torch::Tensor& outputs, const torch::Tensor& answers, const Form& form) {
  namespace F = torch::nn::functional;
  if (form.classes == 0) return F::mse_loss(outputs.reshape({-1}), answers);
  return F::cross_entropy(rows(outputs, form), answers);
}

Tally tally_of(const torch::Tensor& loss, const torch::Tensor& outputs, const torch::Tensor& answers,
               const Form& form) {
  const torch::NoGradGuard no_grad;
  const auto n = static_cast<double>(answers.size(0));
  Tally tally{.loss = loss.item<double>() * n, .predictions = n};
  if (form.classes > 0)
    tally.correct = static_cast<double>(rows(outputs, form).argmax(1).eq(answers).sum().item<std::int64_t>());
  return tally;
}

}  // namespace paceline
