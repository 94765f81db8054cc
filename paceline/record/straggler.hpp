// Straggler: which worker the others wait for, in words.
#pragma once

#include <string>
#include <vector>

#include "paceline/record/metrics.hpp"

namespace paceline {

// Each worker's seconds over all epochs, by rank; the host is where it was last.
std::vector<WorkerTime> worker_totals(const std::vector<EpochMetrics>& epochs);

struct StragglerVerdict {
  std::string sentence;
  Rank straggler = kNoRank;
};

// A worker stands out when its own work (load, compute, update) takes clearly longer than that of the median of the
// others. Communication does not count: whoever is late shows there as the time of everybody else.
StragglerVerdict find_straggler(const std::vector<WorkerTime>& workers);

}  // namespace paceline
