// Weights from a file as the beginning of a training.
#pragma once

#include <string>
#include <vector>

#include "paceline/torch/models.hpp"

namespace paceline {

// Copies the file's weights into the model's parameters and buffers, in place. FILE.safetensors may be of any origin
// and floating type, FILE.pt is of torch::save, as `paceline train` writes it. Names and shapes must fit in both
// directions, or it is an Error{invalid} that names the first that does not, and the model is as it was.
//
// allow_new_head: the last layer may have another shape in the file (other classes); then it keeps its own weights.
// Returns the names of the parameters that did.
std::vector<std::string> load_weights(const Model& model, const std::string& path, bool allow_new_head = false);

}  // namespace paceline
