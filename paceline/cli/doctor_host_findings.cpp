// What is wrong with a host by itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "paceline/cli/doctor_findings.hpp"
#include "paceline/cli/doctor_words.hpp"

namespace paceline {
namespace {

constexpr double kGiB = 1 << 30;

bool too_many_workers(const HostReport& host) { return host.workers() > host.usable_cores(); }

void oversubscribed(const HostReport& host, std::vector<Finding>& findings) {
  if (!too_many_workers(host)) return;
  const int fitting = std::max(1, static_cast<int>(host.usable_cores()));
  findings.push_back({Severity::wrong,
                      "oversubscribed",
                      {host.name},
                      fmt::format("{} on {}: they take turns, and every exchange waits for the last.",
                                  count_of(host.workers(), "worker"), cores_text(host)),
                      fmt::format("Start at most {} there.", count_of(fitting, "worker"))});
}

// The variable with the most threads; workers alone are no reason here.
void blas_threads(const HostReport& host, std::vector<Finding>& findings) {
  if (too_many_workers(host)) return;
  const int fitting = std::max(1, static_cast<int>(host.usable_cores() / host.workers()));
  std::string names;
  int most = 0;
  for (const auto& [name, value] : host.settings) {
    const int threads = std::atoi(value.c_str());
    if (threads <= fitting) continue;
    most = std::max(most, threads);
    names += fmt::format("{}{}={}", names.empty() ? "" : ", ", name, value);
  }
  if (names.empty()) return;
  findings.push_back({Severity::wrong,
                      "blas-threads",
                      {host.name},
                      fmt::format("{} in the environment of {} on {}: up to {} threads fight for them.", names,
                                  count_of(host.workers(), "worker"), cores_text(host), host.workers() * most),
                      fmt::format("Unset it, and paceline gives each worker {}; or start with --threads {}.",
                                  count_of(fitting, "thread"), fitting)});
}

// That of a machine, not of its containers: of those the first speaks.
void load(const DoctorReport& report, const HostReport& host, std::vector<Finding>& findings) {
  const auto first = std::find_if(report.hosts.begin(), report.hosts.end(),
                                  [&](const HostReport& other) { return other.machine == host.machine; });
  if (!host.machine.empty() && &*first != &host) return;
  const double free = host.usable_cores() - host.busy_cores;
  const double wanted = std::min(static_cast<double>(host.workers() * host.threads), host.usable_cores());
  if (host.busy_cores < std::max(0.25, 0.05 * host.cores) || wanted <= free + 0.1) return;
  findings.push_back(
      {Severity::doubtful,
       "load",
       {host.name},
       fmt::format("Other processes keep {:.1f} of its {} at work.", host.busy_cores, count_of(host.cores, "core")),
       "End them (`top` shows them), or give this host fewer workers."});
}

void memory(const HostReport& host, std::vector<Finding>& findings) {
  if (host.memory_bytes == 0) return;
  const double share = static_cast<double>(host.available_bytes) / static_cast<double>(host.memory_bytes);
  if (share >= 0.1) return;
  findings.push_back(
      {share < 0.03 ? Severity::wrong : Severity::doubtful,
       "memory",
       {host.name},
       fmt::format("Only {:.1f} of {:.1f} GiB of memory are available.",
                   static_cast<double>(host.available_bytes) / kGiB, static_cast<double>(host.memory_bytes) / kGiB),
       "End what holds it, raise the container's limit, or put fewer workers there."});
}

void quota(const HostReport& host, std::vector<Finding>& findings) {
  if (host.quota <= 0 || host.quota >= host.cores) return;
  findings.push_back({Severity::doubtful,
                      "quota",
                      {host.name},
                      fmt::format("A control group allows {:.3g} cores' worth of time, of {} that it sees: workers are "
                                  "stopped when that is used up.",
                                  host.quota, count_of(host.cores, "core")),
                      "Raise the container's limit, or start no more workers and threads than it allows."});
}

}  // namespace

void diagnose_hosts(const DoctorReport& report, std::vector<Finding>& findings) {
  for (const HostReport& host : report.hosts) {
    oversubscribed(host, findings);
    blas_threads(host, findings);
    load(report, host, findings);
    memory(host, findings);
    quota(host, findings);
  }
}

}  // namespace paceline
