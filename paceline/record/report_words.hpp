// The head of the report: what was trained, how it ended, and the few figures that matter.
#pragma once

#include <string>

#include "paceline/record/report.hpp"

namespace paceline {

std::string report_title(const ReportInput& input);     // plain text: "lenet on mnist"
std::string report_subtitle(const ReportInput& input);  // plain text: "4 workers · plan ring · 2 hosts"
std::string report_status(const ReportInput& input);    // HTML: how the run ended
Score report_score(const ReportInput& input);           // of the task that the run learned
std::string report_tiles(const ReportInput& input);     // HTML: accuracy or RMSE, throughput, time, waiting, bytes
std::string report_warnings(const ReportInput& input);  // HTML: what should not be overlooked; usually empty

}  // namespace paceline
