// `paceline predict RUN`: what a trained model says about data, how good that is and how quick, on the workers of this
// machine. They are `paceline-train`, with a configuration that asks for it: what is known about failing workers, and
// the program itself, need not be there twice.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

void add_predict_command(CLI::App& app, int& exit_code);

}  // namespace paceline
