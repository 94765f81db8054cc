// The report's section on staleness: how old what workers read from servers was, and whether the plan's bound held.
// Empty where there were no servers.
#pragma once

#include <string>

#include "paceline/record/report.hpp"

namespace paceline {

std::string staleness_section(const ReportInput& input);  // HTML, with its heading

}  // namespace paceline
