// Text from a text model.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/torch/models.hpp"

namespace paceline {

struct GenerateOptions {
  std::size_t count = 200;  // characters
  double temperature = 1;   // below 1 the likely gets likelier; 0: always the likeliest
  std::uint64_t seed = 1;
};

// What the model writes after the prompt, which is not repeated. Each character is drawn from the model's distribution
// given at most the last form.shape.width ones. The vocabulary holds the characters by their numbers, as DataSplit's.
// Without a prompt it begins as after a line's end, or, where the vocabulary has none, after its first character.
// Error{invalid} for a prompt with other characters, for a bad temperature, or for data that are not text. The model is
// in the mode that it was in.
std::string generate(const Model& model, const Form& form, const std::string& vocabulary, const std::string& prompt,
                     const GenerateOptions& options = {});

}  // namespace paceline
