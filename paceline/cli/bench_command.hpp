// `paceline bench allreduce --ranks 2 --bytes 1KiB:256MiB`: times a collective on this machine.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

// Adds the subcommand. When it was chosen, parsing `app` runs it and stores its exit code.
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace paceline
