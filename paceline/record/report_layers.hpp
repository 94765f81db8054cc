// The report's table of layers: what each costs to compute and to send. Empty where no layers are known.
#pragma once

#include <string>

#include "paceline/record/report.hpp"

namespace paceline {

std::string layer_section(const ReportInput& input);  // HTML, with its heading

// What a worker computes in a step, measured: as the input says, else the mean over the workers and epochs; NaN if
// nothing was recorded.
double compute_seconds_of(const ReportInput& input);

}  // namespace paceline
