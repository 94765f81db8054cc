#include "paceline/launch/cores.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// The path of this process below the root of the version 2 hierarchy: the line "0::/path".
std::string control_group() {
  std::ifstream stream("/proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "/";
}

BindPlan bind_to_cores(int workers, int threads, const Cores& allowed) {
  BindPlan plan;
  const std::size_t width = std::min(static_cast<std::size_t>(threads), allowed.size());
  for (std::size_t worker = 0; worker < static_cast<std::size_t>(workers); ++worker) {
    std::set<int> cores;
    for (std::size_t i = 0; i < width; ++i) cores.insert(allowed[(worker * width + i) % allowed.size()]);
    plan.workers.emplace_back(cores.begin(), cores.end());
  }
  if (width * static_cast<std::size_t>(workers) > allowed.size()) {
    plan.remark = fmt::format("{} workers with {} threads each share {} cores: some are bound to the same core",
                              workers, threads, allowed.size());
  }
  return plan;
}

BindPlan bind_to_nodes(int workers, const Cores& allowed, const std::vector<Cores>& nodes) {
  std::vector<Cores> usable;
  for (const Cores& node : nodes) {
    Cores both;
    std::set_intersection(node.begin(), node.end(), allowed.begin(), allowed.end(), std::back_inserter(both));
    if (!both.empty()) usable.push_back(both);
  }
  BindPlan plan;
  plan.workers.resize(static_cast<std::size_t>(workers));
  if (usable.empty()) {
    plan.remark = "workers are not bound: the kernel does not tell which cores belong to which NUMA node";
    return plan;
  }
  const std::size_t count = plan.workers.size();
  for (std::size_t worker = 0; worker < count; ++worker) {
    plan.workers[worker] = count < usable.size() ? usable[worker] : usable[worker * usable.size() / count];
  }
  return plan;
}

}  // namespace

Cores allowed_cores() {
  for (std::size_t capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    Cores cores;
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (std::size_t core = 0; known && core < capacity; ++core) {
      if (CPU_ISSET_S(core, bytes, set)) cores.push_back(static_cast<int>(core));
    }
    CPU_FREE(set);
    if (known) return cores;
  }
  throw system_error("cannot learn which cores this process may use", errno);
}

std::optional<double> core_quota() {
  std::optional<double> lowest;
  fs::path group = fs::path("/sys/fs/cgroup" + control_group()).lexically_normal();
  for (; group.string().starts_with("/sys/fs/cgroup"); group = group.parent_path()) {
    const auto quota = parse_cpu_max(first_line(group / "cpu.max"));
    if (quota) lowest = std::min(*quota, lowest.value_or(*quota));
  }
  return lowest;
}

std::vector<Cores> numa_nodes() {
  std::vector<Cores> nodes;
  for (const int node : parse_core_list(first_line("/sys/devices/system/node/online"))) {
    Cores cores = parse_core_list(first_line(fmt::format("/sys/devices/system/node/node{}/cpulist", node)));
    if (!cores.empty()) nodes.push_back(std::move(cores));
  }
  return nodes;
}

Cores parse_core_list(const std::string& text) {
  Cores cores;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0;
    const char* end = range.data() + range.size();
    const auto begin = std::from_chars(range.data(), end, first);
    if (begin.ec != std::errc()) continue;
    int last = first;
    if (begin.ptr != end && *begin.ptr == '-') std::from_chars(begin.ptr + 1, end, last);
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

std::optional<double> parse_cpu_max(const std::string& text) {
  std::istringstream fields(text);
  double quota = 0;
  double period = 0;
  if (!(fields >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;  // also "max 100000"
  return quota / period;
}

int default_threads(std::size_t cores, std::optional<double> quota, int workers) {
  const double usable = std::min(static_cast<double>(cores), quota.value_or(static_cast<double>(cores)));
  return std::max(1, static_cast<int>(usable / workers));
}

BindPlan plan_binding(Bind bind, int workers, int threads, const Cores& allowed, const std::vector<Cores>& nodes) {
  switch (bind) {
    case Bind::none: break;
    case Bind::core: return bind_to_cores(workers, threads, allowed);
    case Bind::numa: return bind_to_nodes(workers, allowed, nodes);
  }
  return {.workers = std::vector<Cores>(static_cast<std::size_t>(workers)), .remark = {}};
}

}  // namespace paceline
