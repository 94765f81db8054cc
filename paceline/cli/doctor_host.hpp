// What a host is and what it is doing, as far as its kernel tells: cores, memory, settings of the environment.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "paceline/cli/doctor_report.hpp"
#include "paceline/launch/cores.hpp"

namespace paceline {

// All that can be known at once; what has to be measured is left at 0.
HostReport look_at_host();

// How long these cores have been at work since the machine was started, in seconds, summed up.
double busy_seconds(const Cores& cores);
// The same in ticks, from the text of /proc/stat.
double busy_ticks(const std::string& text, const Cores& cores);

// The number behind `name` in texts such as /proc/meminfo and memory.stat; 0 if it is not there.
std::uint64_t number_after(const std::string& text, const std::string& name);

// The largest number of threads that a library would start by these settings; 1 if they do not tell.
int threads_by(const std::map<std::string, std::string>& settings);

}  // namespace paceline
