// Which cores this job may use, and which of them each worker gets.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace paceline {

using Cores = std::vector<int>;  // core numbers, ascending

// The cores that this process may run on: cpusets and taskset are honoured.
Cores allowed_cores();
// How many cores' worth of time the control groups (v2) of this process allow, if they limit it.
std::optional<double> core_quota();
// The cores of each NUMA node, nodes without cores left out; empty when the kernel does not tell.
std::vector<Cores> numa_nodes();

// "0-3,8" → 0 1 2 3 8, as the kernel writes it.
Cores parse_core_list(const std::string& text);
// "200000 100000" → 2, "max 100000" → nullopt: the content of a cpu.max file.
std::optional<double> parse_cpu_max(const std::string& text);

// cores / workers, at least 1, where a quota below the number of cores counts instead of it.
int default_threads(std::size_t cores, std::optional<double> quota, int workers);

enum class Bind { none, core, numa };

struct BindPlan {
  std::vector<Cores> workers;  // by rank; empty where a worker is not bound
  std::string remark;          // what could not be done as asked, as a sentence; empty if nothing
};
// Bind::core gives each worker the next `threads` cores and begins again at the first when they run out. Bind::numa
// spreads the workers over the nodes in order, neighbours together.
BindPlan plan_binding(Bind bind, int workers, int threads, const Cores& allowed, const std::vector<Cores>& nodes);

}  // namespace paceline
