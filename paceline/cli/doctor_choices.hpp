// What paceline would choose in the job that a report is about. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/cli/doctor_report.hpp"
#include "paceline/collective/cost.hpp"

namespace paceline {

// For an allreduce of so many bytes.
struct Choice {
  std::size_t bytes = 0;
  Algorithm taken = Algorithm::automatic;     // by the cost model as it is built in
  Algorithm quickest = Algorithm::automatic;  // by the latencies and bandwidths of the report
  double seconds = 0;                         // that `taken` takes by those, about
  double quickest_seconds = 0;
};
// For 4 KiB, 1 MiB and 64 MiB; none in a job of one.
std::vector<Choice> choices(const DoctorReport& report);

// The cost model with what the links show: the median in everything but the bandwidth between hosts, for which all
// wait for the slowest.
CostModel cost_of(const DoctorReport& report);

// How many workers `paceline train` would start on a host.
int default_workers(const HostReport& host);

}  // namespace paceline
