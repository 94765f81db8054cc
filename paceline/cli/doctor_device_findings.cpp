// What is wrong with the choice of network devices, in a job of several hosts.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paceline/cli/doctor_devices.hpp"
#include "paceline/cli/doctor_findings.hpp"
#include "paceline/cli/doctor_words.hpp"

namespace paceline {
namespace {

constexpr double kQuicker = 2;  // from which on another device is worth a word

std::string network(const DeviceReport& device) { return network_of(device.address, device.prefix_bits); }

bool made_for_containers(const DeviceReport& device) {
  for (const char* start : {"docker", "virbr", "br-", "cni", "lxc", "podman"}) {
    if (device.name.starts_with(start)) return true;
  }
  return device.kind == "bridge";
}

bool on_one_machine(const DoctorReport& report) {
  return std::all_of(report.hosts.begin(), report.hosts.end(),
                     [&](const HostReport& host) { return host.machine == report.hosts.front().machine; });
}

void unfit(const DoctorReport& report, const HostReport& host, const DeviceReport& device,
           std::vector<Finding>& findings) {
  std::string what;
  Severity severity = Severity::wrong;
  if (device.kind == "loopback") {
    if (on_one_machine(report)) return;
    what = "does not leave the host";
  } else if (made_for_containers(device)) {
    what = "is a bridge to containers or virtual machines of the host";
    severity = device.name.starts_with("br") ? Severity::doubtful : severity;  // br0 is often over a real device
  } else if (device.kind == "wireless" || device.kind == "tunnel") {
    what = device.kind == "wireless" ? "is wireless" : "is a tunnel";
    severity = Severity::doubtful;
  }
  if (what.empty()) return;
  findings.push_back(
      {severity,
       "wrong-device",
       {host.name},
       fmt::format("Messages to other hosts go through {} ({}), which {}.", device.name, device.address, what),
       "Choose a device that leads to the other hosts with --device; the table of devices lists them."});
}

// All hosts have a device in that network.
bool reaches_all(const DoctorReport& report, const std::string& net) {
  return std::all_of(report.hosts.begin(), report.hosts.end(), [&](const HostReport& host) {
    return std::any_of(host.devices.begin(), host.devices.end(),
                       [&](const DeviceReport& device) { return network(device) == net; });
  });
}

void slower_than_another(const DoctorReport& report, const HostReport& host, const DeviceReport& used,
                         std::vector<Finding>& findings) {
  const DeviceReport* best = nullptr;
  for (const DeviceReport& device : host.devices) {
    if (device.mbit == 0 || used.mbit == 0 || device.mbit < kQuicker * used.mbit) continue;
    if (device.kind == "loopback" || made_for_containers(device) || !reaches_all(report, network(device))) continue;
    if (best == nullptr || device.mbit > best->mbit) best = &device;
  }
  if (best == nullptr) return;
  findings.push_back(
      {Severity::wrong,
       "slower-device",
       {host.name},
       fmt::format("Messages go through {} ({}), though {} ({}) leads to all hosts as well.", used.name,
                   bits_text(used.mbit / 8000.0), best->name, bits_text(best->mbit / 8000.0)),
       fmt::format("Start with --device {}; on a host that calls it otherwise, set PACELINE_DEVICE.", best->name)});
}

template <class Key>
std::map<std::string, std::vector<std::string>> hosts_by(const DoctorReport& report, Key&& key) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const HostReport& host : report.hosts) {
    if (const DeviceReport* device = host.used_device()) groups[key(*device)].push_back(host.name);
  }
  return groups;
}

std::string listed(const std::map<std::string, std::vector<std::string>>& groups) {
  std::string text;
  for (const auto& [value, names] : groups)
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", value, and_list(names));
  return text;
}

void different_networks(const DoctorReport& report, std::vector<Finding>& findings) {
  const auto networks = hosts_by(report, network);
  if (networks.size() > 1)
    findings.push_back({Severity::doubtful,
                        "different-networks",
                        {},
                        fmt::format("The hosts use devices of different networks ({}): messages take the way through "
                                    "a router, or none.",
                                    listed(networks)),
                        "If there is a network that all are in, choose its device with --device."});
  const auto mtus = hosts_by(report, [](const DeviceReport& device) { return fmt::format("{} bytes", device.mtu); });
  if (mtus.size() > 1)
    findings.push_back({Severity::doubtful,
                        "different-mtu",
                        {},
                        fmt::format("The devices take packets of different size ({}).", listed(mtus)),
                        "Set one MTU on all hosts and switch ports (`ip link set DEVICE mtu N`): large packets may be "
                        "lost on the way."});
}

}  // namespace

void diagnose_devices(const DoctorReport& report, std::vector<Finding>& findings) {
  if (report.hosts.size() < 2) return;
  for (const HostReport& host : report.hosts) {
    const DeviceReport* device = host.used_device();
    if (device == nullptr) continue;
    unfit(report, host, *device, findings);
    slower_than_another(report, host, *device, findings);
  }
  different_networks(report, findings);
}

}  // namespace paceline
