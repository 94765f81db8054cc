// `paceline doctor-worker`: one worker of `paceline doctor`, which starts it. Hidden.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

// Adds the subcommand. What it measured, rank 0 writes to standard output: a DoctorReport as JSON in short lines.
void add_doctor_worker_command(CLI::App& app, int& exit_code);

}  // namespace paceline
