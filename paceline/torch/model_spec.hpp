// ModelSpec: which model a user asks for, and how it is to be built. Without torch, so that wrong words are refused
// before anything is started.
#pragma once

#include <string>
#include <vector>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct ModelSpec {
  std::string family = "cnn";
  std::vector<int> sizes = {};  // what a family is given after its name: the widths of an mlp's hidden layers
  std::string file = {};        // or a file's name: a script's

  std::string text() const;  // what parse_model takes
};

// How a model is built, where that changes nothing about what it can represent.
struct ModelOptions {
  int ghost_batch = 0;                  // batch norm over so many examples at a time; 0: over all that go in at once
  bool checkpoint_activations = false;  // compute them again in backward instead of keeping them
};

// The names of what models.cpp can make.
std::vector<std::string> model_families();

// softmax, mlp, mlp:256,128 or mlp:2048x3 (three layers of 2048), lenet, cnn, resnet18, vgg16, transformer or
// transformer:4,256,4 (layers, width, heads), lstm or lstm:2,256 (layers, width), wide-deep or wide-deep:16 (floats of
// an embedding), script:FILE. Throws Error{invalid} that lists them.
ModelSpec parse_model(const std::string& text);

bool takes(const ModelSpec& spec, Kind kind);
// Most of its parameters are rows in tables of servers, beside those of its module.
bool keeps_rows_on_servers(const ModelSpec& spec);

// Error{invalid} when the model does not take such data, images are too small for its layers, or its file is absent.
void require_fit(const ModelSpec& spec, const Form& form);
// Error{invalid} when the model has nothing that an option speaks of.
void require_fit(const ModelSpec& spec, const ModelOptions& options);

// One line.
std::string model_help();

}  // namespace paceline
