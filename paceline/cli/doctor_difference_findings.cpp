// What is wrong because hosts are not alike. A synchronous job is as quick as its slowest worker.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "paceline/cli/doctor_findings.hpp"
#include "paceline/cli/doctor_words.hpp"
#include "paceline/cli/measure.hpp"
#include "paceline/launch/cores.hpp"

namespace paceline {
namespace {

constexpr double kClocksApart = 1;  // seconds
constexpr double kMuchLess = 0.5;   // memory bandwidth of a worker, against the others'
constexpr double kHopelessly = 0.2;

using Hosts = std::vector<HostReport>;
using Names = std::vector<std::string>;

// Hosts by what `key` says of them, as "x on a and b; y on c". Empty if all say the same.
template <class Key>
std::string disagreement(const Hosts& hosts, Key&& key) {
  std::map<std::string, Names> by_value;
  for (const HostReport& host : hosts) by_value[key(host)].push_back(host.name);
  if (by_value.size() < 2) return {};
  std::string text;
  for (const auto& [value, names] : by_value)
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", value, and_list(names));
  return text;
}

void processors(const Hosts& hosts, std::vector<Finding>& findings) {
  const std::string cpus = disagreement(hosts, [](const HostReport& host) { return host.cpu; });
  if (!cpus.empty())
    findings.push_back({Severity::doubtful,
                        "different-cpus",
                        {},
                        fmt::format("The processors differ ({}): all wait for the slowest in every step.", cpus),
                        "Train on hosts of one kind, or give the slower ones smaller batches."});
  const auto per_worker = [](const HostReport& host) {
    const double cores = host.usable_cores() / host.workers();
    return fmt::format("{:.3g} core{}", cores, cores == 1 ? "" : "s");
  };
  const std::string cores = disagreement(hosts, per_worker);
  if (!cores.empty())
    findings.push_back({Severity::doubtful,
                        "different-cores",
                        {},
                        fmt::format("Workers do not have the same number of cores each ({}).", cores),
                        "Share out the workers by cores, as in --hosts a:8,b:4."});
}

// The launcher itself gives hosts with more cores more threads; that is a difference in cores, and said there.
void settings(const Hosts& hosts, std::vector<Finding>& findings) {
  std::set<std::string> names;
  for (const HostReport& host : hosts) {
    const int own = default_threads(static_cast<std::size_t>(host.cores),
                                    host.quota > 0 ? std::optional(host.quota) : std::nullopt, host.workers());
    for (const auto& [name, value] : host.settings) {
      if (value != std::to_string(own)) names.insert(name);
    }
  }
  for (const std::string& name : names) {
    const std::string values = disagreement(hosts, [&](const HostReport& host) {
      const auto found = host.settings.find(name);
      return found == host.settings.end() ? std::string("nothing") : found->second;
    });
    if (values.empty()) continue;
    findings.push_back({Severity::doubtful,
                        "different-threads",
                        {},
                        fmt::format("{} is {}: workers are not equally quick.", name, values),
                        "Unset it on all hosts, or start with --threads N."});
  }
}

void clocks(const Hosts& hosts, std::vector<Finding>& findings) {
  for (const HostReport& host : hosts) {
    if (std::abs(host.clock_ahead) - host.clock_error < kClocksApart) continue;
    findings.push_back({Severity::doubtful,
                        "clock",
                        {host.name},
                        fmt::format("Its clock is {} {} that of {}.", time_text(std::abs(host.clock_ahead)),
                                    host.clock_ahead > 0 ? "ahead of" : "behind", hosts.front().name),
                        "Let chrony or systemd-timesyncd set it: times of logs and files do not agree."});
  }
}

double per_worker(const HostReport& host) { return host.copy_all / host.workers(); }

// Containers of one machine have the same memory.
void memory_bandwidth(const Hosts& hosts, std::vector<Finding>& findings) {
  for (const HostReport& host : hosts) {
    std::vector<double> others;
    for (const HostReport& other : hosts) {
      if (other.machine != host.machine) others.push_back(per_worker(other));
    }
    if (others.empty() || per_worker(host) >= kMuchLess * median(others)) continue;
    findings.push_back(
        {per_worker(host) < kHopelessly * median(others) ? Severity::wrong : Severity::doubtful,
         "memory-bandwidth",
         {host.name},
         fmt::format("A worker there copies {} GB/s of memory when all are at it, on the other hosts {}.",
                     three_digits(per_worker(host)), three_digits(median(others))),
         "Look for other processes, for memory channels that are not filled, for a power-saving mode; or put fewer "
         "workers there."});
  }
}

// Over loopback only if hosts are imitated, for an experiment: then that is no news.
bool imitated(const std::vector<const HostReport*>& hosts) {
  const DeviceReport* device = hosts.front()->used_device();
  return device != nullptr && device->kind == "loopback";
}

void one_machine(const Hosts& hosts, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<const HostReport*>> machines;
  for (const HostReport& host : hosts) machines[host.machine].push_back(&host);
  for (const auto& [machine, parts] : machines) {
    Names names;
    int workers = 0, cores = 0;
    for (const HostReport* part : parts) {
      names.push_back(part->name);
      workers += part->workers();
      cores = std::max(cores, part->cores);
    }
    const bool crowded = workers > cores;
    if (machine.empty() || parts.size() < 2 || (imitated(parts) && !crowded)) continue;
    findings.push_back({crowded ? Severity::doubtful : Severity::note,
                        "one-machine",
                        {},
                        fmt::format("{} are one machine: {} share its memory and {}, but talk over the network.",
                                    and_list(names), count_of(workers, "worker"), count_of(cores, "core")),
                        "Run the workers of a machine in one container, where they share memory, one per core."});
  }
}

}  // namespace

void diagnose_differences(const DoctorReport& report, std::vector<Finding>& findings) {
  processors(report.hosts, findings);
  settings(report.hosts, findings);
  clocks(report.hosts, findings);
  memory_bandwidth(report.hosts, findings);
  one_machine(report.hosts, findings);
}

}  // namespace paceline
