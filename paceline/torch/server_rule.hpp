// server_rule: the rule by which a server does what an optimizer of torch::optim would do to its parameters; empty if
// no rule does. The learning rate of each step travels with the gradients.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>

namespace paceline {

std::string server_rule(const torch::optim::Optimizer& optimizer);

}  // namespace paceline
