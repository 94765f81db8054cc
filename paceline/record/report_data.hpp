// What the script of the report page draws, as JSON. Long runs are thinned, so that a page stays below a few megabytes.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "paceline/record/metrics.hpp"
#include "paceline/record/report.hpp"

namespace paceline {

nlohmann::ordered_json chart_data(const ReportInput& input);

// At most `most` points: each is the mean of as many neighbours as needed, at the place of the last of them. Losses
// that are not numbers are left out of a mean, unless there is nothing else.
std::vector<StepPoint> thinned(const std::vector<StepPoint>& points, std::size_t most);

}  // namespace paceline
