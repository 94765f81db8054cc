// How sharp a minimum is (Keskar, Mudigere, Nocedal, Smelyanskiy & Tang 2017, "On Large-Batch Training for Deep
// Learning", metric 2.1 with A the identity): in percent,
//   100 (max of f(x + y) - f(x)) / (1 + f(x))   over the box |y_i| <= epsilon (|x_i| + 1)
// f is the mean loss over some examples. They look for the maximum with L-BFGS-B; here it is projected gradient ascent,
// by the signs of the gradient with steps in units of the box, halved whenever a step brings nothing, from the middle
// of the box and from random places in it. What is found is a lower bound of the maximum, as it is with theirs.
//
// Price: 1 + `starts` times (`steps` + 1) passes forward and backward over the examples; of the parameters one copy,
// and four in f64. With a communicator, one allreduce of f64 gradients per pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "paceline/collective/communicator.hpp"
#include "paceline/data/dataset.hpp"
#include "paceline/torch/models.hpp"

namespace paceline {

struct SharpnessOptions {
  double epsilon = 1e-3;        // 1e-3 and 5e-4 in the paper
  std::size_t examples = 2000;  // drawn at random; 0, or more than there are: all
  int steps = 10;               // of ascent, as many as their L-BFGS-B iterates
  int starts = 2;               // the first in the middle of the box
  std::uint64_t seed = 1;
  std::size_t batch = 256;               // that go through the model at once
  Communicator* communicator = nullptr;  // of ranks with equal models that share the examples; none: this rank alone
};

struct Sharpness {
  double percent = 0;
  double loss = 0;        // f(x)
  double worst_loss = 0;  // the largest f(x + y) found
  double epsilon = 0;
  std::size_t examples = 0;
};
nlohmann::ordered_json to_json(const Sharpness& sharpness);

// With the model in evaluation mode. Parameters, their gradients and the model's mode are afterwards, bit for bit, what
// they were, also if it throws. With a communicator it is a collective, to be called between steps. Error{invalid} for
// options or data with which there is nothing to do.
Sharpness sharpness_of(const Model& model, const Dataset& data, const Normalisation& normalisation,
                       const SharpnessOptions& options = {});

}  // namespace paceline
