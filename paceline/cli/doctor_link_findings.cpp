// What is wrong with the links: a host, or a single link, far slower than its peers.
//
// A host's network device is judged by the best of its links, in each direction: one slow host spoils a link of every
// other one, but not that one's best.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "paceline/cli/doctor_findings.hpp"
#include "paceline/cli/doctor_words.hpp"
#include "paceline/cli/measure.hpp"

namespace paceline {
namespace {

// A device of a tenth of the speed must show, and all measurements scatter.
constexpr double kFarSlower = 0.2;
constexpr double kSlower = 0.4;
constexpr double kLateFactor = 10;
constexpr double kLateUs = 1000;
constexpr double kOfWhatItSays = 0.1;

struct Best {
  double out = 0, in = 0;
  double latency_us = 1e300;
};

struct Between {
  const DoctorReport& report;
  std::vector<LinkReport> links;  // between hosts
  std::vector<Best> best;         // by host
  std::set<const HostReport*> blamed;
};

std::size_t number_of(const DoctorReport& report, int rank) {
  return static_cast<std::size_t>(&report.host_of(rank) - report.hosts.data());
}

Between look_between(const DoctorReport& report) {
  Between between{report, {}, std::vector<Best>(report.hosts.size()), {}};
  for (const LinkReport& link : report.links) {
    if (report.on_one_host(link.from, link.to)) continue;
    between.links.push_back(link);
    Best& from = between.best[number_of(report, link.from)];
    Best& to = between.best[number_of(report, link.to)];
    from.out = std::max(from.out, link.gbps);
    to.in = std::max(to.in, link.gbps);
    from.latency_us = std::min(from.latency_us, link.latency_us);
    to.latency_us = std::min(to.latency_us, link.latency_us);
  }
  return between;
}

double median_of_others(const std::vector<Best>& best, std::size_t self, double Best::*what) {
  std::vector<double> others;
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (i != self) others.push_back(best[i].*what);
  }
  return median(others);
}

std::string device_advice(const HostReport& host) {
  const DeviceReport* device = host.used_device();
  const std::string name = device == nullptr ? "its network device" : device->name;
  const std::string says = device != nullptr && device->mbit > 0
                               ? fmt::format(", which says {}", bits_text(device->mbit / 8000.0))
                               : std::string();
  return fmt::format(
      "Look at cable, switch port and traffic shaping of {}{} (`ethtool {}`, `tc qdisc show`), or choose "
      "another with --device.",
      name, says, device == nullptr ? "DEVICE" : device->name);
}

// A device that software makes is as quick as the cores have time for it, which scatters.
double bar_of(const HostReport& host) {
  const DeviceReport* device = host.used_device();
  return device != nullptr && device->kind == "virtual" ? kFarSlower : kSlower;
}

// With two hosts nobody can tell whose device it is.
void slow_hosts(Between& between, std::vector<Finding>& findings) {
  for (std::size_t i = 0; i < between.best.size() && between.best.size() > 2; ++i) {
    const HostReport& host = between.report.hosts[i];
    const double out = median_of_others(between.best, i, &Best::out), in = median_of_others(between.best, i, &Best::in);
    const double out_share = between.best[i].out / out, in_share = between.best[i].in / in;
    const double bar = bar_of(host);
    if (std::min(out_share, in_share) >= bar) continue;
    const bool sends = out_share < bar, receives = in_share < bar;
    between.blamed.insert(&host);
    const std::string rate = sends && receives
                                 ? bits_text(std::min(between.best[i].out, between.best[i].in)) + " out and in"
                             : sends ? bits_text(between.best[i].out) + " out"
                                     : bits_text(between.best[i].in) + " in";
    findings.push_back(
        {std::min(out_share, in_share) < kFarSlower ? Severity::wrong : Severity::doubtful,
         "slow-network",
         {host.name},
         fmt::format("Its network carries {}, where the other hosts reach {}.", rate, bits_text(sends ? out : in)),
         device_advice(host)});
  }
}

void slow_links(const Between& between, std::vector<Finding>& findings) {
  std::vector<double> rates;
  for (const LinkReport& link : between.links) rates.push_back(link.gbps);
  for (const LinkReport& link : between.links) {
    const HostReport &from = between.report.host_of(link.from), &to = between.report.host_of(link.to);
    if (between.blamed.count(&from) + between.blamed.count(&to) > 0) continue;
    if (link.gbps >= kFarSlower * median(rates)) continue;
    findings.push_back(
        {Severity::wrong,
         "slow-link",
         {from.name},
         fmt::format("From {} (rank {}) to {} (rank {}) only {} get through, over other links {}.", from.name,
                     link.from, to.name, link.to, bits_text(link.gbps), bits_text(median(rates))),
         "Look at the switches and routes between the two (`traceroute`, `ip route get`)."});
  }
}

void late_hosts(const Between& between, std::vector<Finding>& findings) {
  for (std::size_t i = 0; i < between.best.size() && between.best.size() > 2; ++i) {
    const double own = between.best[i].latency_us;
    const double others = median_of_others(between.best, i, &Best::latency_us);
    if (own < kLateUs || own < kLateFactor * others) continue;
    findings.push_back({Severity::wrong,
                        "late",
                        {between.report.hosts[i].name},
                        fmt::format("A message to or from it takes {}, between the other hosts {}.",
                                    time_text(own * 1e-6), time_text(others * 1e-6)),
                        "Look at the way to it (`traceroute`) and at power saving of its network device."});
  }
}

// The kernel's number for a device that software makes means nothing.
void broken_promises(const Between& between, std::vector<Finding>& findings) {
  for (std::size_t i = 0; i < between.best.size() && !between.links.empty(); ++i) {
    const HostReport& host = between.report.hosts[i];
    const DeviceReport* device = host.used_device();
    if (between.blamed.count(&host) > 0 || device == nullptr || device->mbit == 0) continue;
    if (device->kind != "ethernet" && device->kind != "infiniband") continue;
    const double promised = device->mbit / 8000.0;
    const double best = std::max(between.best[i].out, between.best[i].in);
    if (best >= kOfWhatItSays * promised) continue;
    findings.push_back({Severity::doubtful,
                        "below-line-rate",
                        {host.name},
                        fmt::format("{} says {}, but no more than {} get through.", device->name, bits_text(promised),
                                    bits_text(best)),
                        device_advice(host)});
  }
}

}  // namespace

void diagnose_links(const DoctorReport& report, std::vector<Finding>& findings) {
  Between between = look_between(report);
  if (between.links.empty()) return;
  slow_hosts(between, findings);
  slow_links(between, findings);
  late_hosts(between, findings);
  broken_promises(between, findings);
}

}  // namespace paceline
