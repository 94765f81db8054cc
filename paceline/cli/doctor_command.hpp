// `paceline doctor --hosts a:2,b:2`: looks at the hosts of a job and the links between its workers, and says what is
// wrong.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

// Adds the subcommand. When it was chosen, parsing `app` runs it and stores its exit code.
void add_doctor_command(CLI::App& app, int& exit_code);

}  // namespace paceline
