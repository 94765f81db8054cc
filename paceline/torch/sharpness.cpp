#include "paceline/torch/sharpness.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/data/batch.hpp"
#include "paceline/torch/gradient_parts.hpp"
#include "paceline/torch/task.hpp"

namespace paceline {
namespace {

void check(const Dataset& data, const SharpnessOptions& options) {
  if (data.size() == 0) throw Error(Code::invalid, "sharpness needs examples, and the data set has none");
  if (!(options.epsilon > 0) || options.steps < 1 || options.starts < 1 || options.batch < 1)
    throw Error(Code::invalid,
                "sharpness needs an epsilon above 0 and at least one step, one start and a batch of one");
}

// Some examples, without repetition, in ascending order; the same for the same seed.
std::vector<std::uint32_t> choose(std::size_t size, std::size_t wanted, std::uint64_t seed) {
  std::vector<std::uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0u);
  if (wanted == 0 || wanted >= size) return all;
  Random random(seed, 0);
  for (std::size_t i = 0; i < wanted; ++i) std::swap(all[i], all[i + random.below(size - i)]);
  all.resize(wanted);
  std::sort(all.begin(), all.end());
  return all;
}

// While it lives, the model is in evaluation mode and its parameters may be moved.
class Loan {
 public:
  Loan(torch::nn::Module& module, std::vector<torch::Tensor> parameters)
      : module_(module), training_(module.is_training()), parameters_(std::move(parameters)) {
    for (const torch::Tensor& parameter : parameters_) middle_.push_back(parameter.detach().clone());
    module_.eval();
  }
  ~Loan() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(middle_[i]);
    module_.train(training_);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  const std::vector<torch::Tensor>& middle() const { return middle_; }

 private:
  torch::nn::Module& module_;
  const bool training_;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> middle_;
};

// The mean loss over the chosen examples, and its gradient, of all ranks together.
class Objective {
 public:
  Objective(const Model& model, const Dataset& data, const Normalisation& normalisation,
            const SharpnessOptions& options, const std::vector<torch::Tensor>& parameters)
      : model_(model), data_(data), normalisation_(normalisation), options_(options), parameters_(parameters) {
    chosen_ = choose(data.size(), options.examples, options.seed);
    examples_ = chosen_.size();
    std::size_t size = 1;
    for (const torch::Tensor& parameter : parameters) size += static_cast<std::size_t>(parameter.numel());
    sums_.resize(size);
    if (options.communicator != nullptr) keep_own_share();
  }

  std::size_t examples() const { return examples_; }

  // Afterwards gradient() is that at the same place.
  double evaluate() {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (std::size_t first = 0; first < chosen_.size(); first += options_.batch)
      add(std::span(chosen_).subspan(first, std::min(options_.batch, chosen_.size() - first)));
    if (options_.communicator != nullptr)
      options_.communicator->allreduce(view(sums_), ReduceOp::sum,
                                       {.name = "sharpness", .algorithm = Algorithm::ordered});
    return sums_[0] / static_cast<double>(examples_);
  }

  torch::Tensor gradient(std::size_t parameter) {
    std::size_t first = 1;
    for (std::size_t i = 0; i < parameter; ++i) first += static_cast<std::size_t>(parameters_[i].numel());
    return torch::from_blob(sums_.data() + first, parameters_[parameter].sizes(), torch::kDouble);
  }

 private:
  void keep_own_share() {
    const auto ranks = static_cast<std::size_t>(options_.communicator->size());
    const auto rank = static_cast<std::size_t>(options_.communicator->rank());
    const std::size_t first = chosen_.size() * rank / ranks, last = chosen_.size() * (rank + 1) / ranks;
    chosen_ = {chosen_.begin() + static_cast<std::ptrdiff_t>(first),
               chosen_.begin() + static_cast<std::ptrdiff_t>(last)};
  }

  // Through autograd::grad, which leaves .grad alone, and with it whoever watches it.
  void add(std::span<const std::uint32_t> indices) {
    fill(batch_, data_, normalisation_, indices);
    const Form& form = data_.form();
    const torch::Tensor loss = loss_of(model_.forward(inputs_of(batch_, form)), answers_of(batch_, form), form);
    const auto count = static_cast<double>(indices.size());
    sums_[0] += loss.item<double>() * count;
    const auto gradients = torch::autograd::grad({loss}, parameters_, {}, false, false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) gradient(i).add_(gradients[i], count);
    }
  }

  const Model& model_;
  const Dataset& data_;
  const Normalisation& normalisation_;
  const SharpnessOptions& options_;
  const std::vector<torch::Tensor>& parameters_;
  std::vector<std::uint32_t> chosen_;
  std::size_t examples_ = 0;
  Batch batch_;
  std::vector<double> sums_;  // the loss, then each coordinate of the gradient
};

// Where in the box: its coordinates go from -1 to 1.
using Place = std::vector<torch::Tensor>;

Place start_at(const Loan& loan, int start, std::uint64_t seed) {
  Place place;
  for (std::size_t i = 0; i < loan.middle().size(); ++i) {
    torch::Tensor coordinates = torch::zeros(loan.middle()[i].sizes(), torch::kDouble);
    Random random(mix(seed, static_cast<std::uint64_t>(start)), i);
    double* values = coordinates.data_ptr<double>();
    for (std::int64_t k = 0; start > 0 && k < coordinates.numel(); ++k) values[k] = 2 * random.uniform() - 1;
    place.push_back(coordinates);
  }
  return place;
}

void move_to(const Loan& loan, const Place& place, double epsilon) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < place.size(); ++i) {
    const torch::Tensor middle = loan.middle()[i].to(torch::kDouble);
    torch::Tensor parameter = loan.parameters()[i];
    parameter.copy_(middle + place[i] * ((middle.abs() + 1) * epsilon));
  }
}

// Which way the loss grows, by coordinate.
Place upwards(Objective& objective, std::size_t size) {
  Place signs;
  for (std::size_t i = 0; i < size; ++i) signs.push_back(objective.gradient(i).sign());
  return signs;
}

Place ascend(const Place& from, const Place& up, double length) {
  Place to;
  for (std::size_t i = 0; i < from.size(); ++i) to.push_back((from[i] + up[i] * length).clamp_(-1, 1));
  return to;
}

// The largest loss on the way up from one start.
double climb(const Loan& loan, Objective& objective, Place place, const SharpnessOptions& options) {
  move_to(loan, place, options.epsilon);
  double best = objective.evaluate();
  Place up = upwards(objective, place.size());
  double length = 1;
  for (int step = 0; step < options.steps; ++step) {
    Place next = ascend(place, up, length);
    move_to(loan, next, options.epsilon);
    const double loss = objective.evaluate();
    if (loss > best) {
      best = loss;
      place = std::move(next);
      up = upwards(objective, place.size());
    } else {
      length /= 2;
    }
  }
  return best;
}

}  // namespace

nlohmann::ordered_json to_json(const Sharpness& sharpness) {
  return {{"percent", sharpness.percent},
          {"loss", sharpness.loss},
          {"worst_loss", sharpness.worst_loss},
          {"epsilon", sharpness.epsilon},
          {"examples", sharpness.examples}};
}

Sharpness sharpness_of(const Model& model, const Dataset& data, const Normalisation& normalisation,
                       const SharpnessOptions& options) {
  check(data, options);
  const Loan loan(*model.module, trained(model.module->parameters()));
  Objective objective(model, data, normalisation, options, loan.parameters());
  Sharpness result{.epsilon = options.epsilon, .examples = objective.examples()};
  result.loss = result.worst_loss = objective.evaluate();
  for (int start = 0; start < options.starts; ++start)
    result.worst_loss =
        std::max(result.worst_loss, climb(loan, objective, start_at(loan, start, options.seed), options));
  result.percent = 100 * (result.worst_loss - result.loss) / (1 + result.loss);
  return result;
}

}  // namespace paceline
