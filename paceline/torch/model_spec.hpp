// ModelSpec: which built-in model a user asks for. Pure, without torch, so that a wrong name is refused before anything
// is started.
#pragma once

#include <string>
#include <vector>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct ModelSpec {
  std::string family = "cnn";
  std::vector<int> sizes = {};  // what a family is given after its name: the widths of an mlp's hidden layers

  std::string text() const;  // what parse_model takes
};

// The names of what models.cpp can make.
std::vector<std::string> model_families();

// softmax, mlp, mlp:256,128 or mlp:2048x3 (three layers of 2048), lenet, cnn. Throws Error{invalid} that lists them.
ModelSpec parse_model(const std::string& text);

// Error{invalid} when the model does not take such data, or images are too small for its layers.
void require_fit(const ModelSpec& spec, const Form& form);

// One line.
std::string model_help();

}  // namespace paceline
