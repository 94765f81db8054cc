// kill_job: kills every process that carries a job's mark in its environment, wherever it has hidden: in a session of
// its own, adopted by init. The last resort behind process groups.
#pragma once

#include <string>

namespace paceline {

inline constexpr const char* kJobVariable = "PACELINE_JOB";

// Returns when no such process is left, or after a second. Costs one look at each process of this user.
void kill_job(const std::string& job);

}  // namespace paceline
