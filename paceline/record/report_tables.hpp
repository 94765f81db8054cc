// The parts of the report that are tables, and the bars of the workers' time: plain HTML that needs no script.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/record/metrics.hpp"

namespace paceline {

std::string epoch_table(const std::vector<EpochMetrics>& epochs);
std::string worker_table(const std::vector<WorkerTime>& workers);
// One bar per worker on one scale, cut into the parts of kStepActivities; `straggler` is marked.
std::string worker_bars(const std::vector<WorkerTime>& workers, Rank straggler);
std::string config_table(const nlohmann::json& config);  // values as they were written
std::string result_table(const nlohmann::json& final);   // figures rounded

}  // namespace paceline
