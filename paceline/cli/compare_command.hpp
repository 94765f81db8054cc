// `paceline compare --plans FILE --seeds 5 -- OPTIONS`: trains every plan with every seed, one run after the other, and
// sets the results side by side: a table, a sentence on who wins, and compare.html.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

void add_compare_command(CLI::App& app, int& exit_code);

}  // namespace paceline
