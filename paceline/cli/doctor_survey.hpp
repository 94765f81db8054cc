// survey: what the workers of `paceline doctor` do together, in this order: each looks at its host; all sleep, to see
// what others do; memory, one host's workers alone and then all; links, pair after pair; then rank 0 gets it all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/doctor_report.hpp"
#include "paceline/launch/join.hpp"

namespace paceline {

// A collective of all ranks. `names` of their hosts, by rank; where there is none, the host's own. The report on rank
// 0, nothing on the others. Throws Error.
std::optional<DoctorReport> survey(Job& job, const std::vector<std::string>& names);

}  // namespace paceline
