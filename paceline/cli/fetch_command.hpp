// `paceline fetch NAME`: gets the files of a public data set and says which word of --data uses them.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

void add_fetch_command(CLI::App& app, int& exit_code);

}  // namespace paceline
