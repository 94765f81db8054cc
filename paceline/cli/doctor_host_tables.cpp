// The hosts of a report and their network devices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "paceline/cli/doctor_grid.hpp"
#include "paceline/cli/doctor_tables.hpp"
#include "paceline/cli/doctor_words.hpp"

namespace paceline {
namespace {

using enum Grid::Align;
constexpr double kGiB = 1 << 30;
constexpr std::size_t kManyHosts = 8;  // from which on devices that carry nothing are left out

std::string memory_text(const HostReport& host) {
  return fmt::format("{:.1f} of {:.1f}", static_cast<double>(host.available_bytes) / kGiB,
                     static_cast<double>(host.memory_bytes) / kGiB);
}

// A difference that may as well be none is not shown as one.
std::string clock_text(const HostReport& host) {
  if (std::abs(host.clock_ahead) <= host.clock_error) return "± " + time_text(host.clock_error);
  return (host.clock_ahead > 0 ? "+" : "") + time_text(host.clock_ahead);
}

std::string sharing(const DoctorReport& report) {
  std::vector<std::string> without;
  bool any = false;
  for (const HostReport& host : report.hosts) {
    if (host.workers() < 2) continue;
    any = true;
    if (!host.shares_memory) without.push_back(host.name);
  }
  if (!any) return {};
  return without.empty() ? "  shared memory: used between workers of one host\n"
                         : fmt::format("  shared memory: not on {}\n", and_list(without));
}

std::string processors(const DoctorReport& report) {
  std::set<std::string> models;
  for (const HostReport& host : report.hosts) models.insert(host.cpu);
  if (models.size() == 1) return fmt::format("  processor: {}\n", *models.begin());
  std::string text;
  for (const HostReport& host : report.hosts) text += fmt::format("  processor of {}: {}\n", host.name, host.cpu);
  return text;
}

// One line where all hosts have the same.
std::string settings(const DoctorReport& report) {
  std::string text;
  std::set<std::string> lines;
  for (const HostReport& host : report.hosts) {
    std::string line;
    for (const auto& [name, value] : host.settings) line += fmt::format(" {}={}", name, value);
    lines.insert(line);
    text += fmt::format("  workers' environment on {}:{}\n", host.name, line);
  }
  return lines.size() == 1 ? fmt::format("  workers' environment:{}\n", *lines.begin()) : text;
}

void add_devices(const HostReport& host, bool only_used, Grid& grid) {
  std::string name = host.name;
  const DeviceReport* used = host.used_device();
  for (const DeviceReport& device : host.devices) {
    if ((only_used || device.kind == "loopback") && &device != used) continue;
    const bool known = device.mbit > 0;
    grid.add({name, device.name + (&device == used ? " *" : ""),
              fmt::format("{}/{}", device.address, device.prefix_bits), known ? bits_text(device.mbit / 8000.0) : "-",
              device.mtu > 0 ? std::to_string(device.mtu) : "-", device.kind});
    name.clear();
  }
}

std::vector<std::string> row_of(const HostReport& host) {
  const double usable = host.usable_cores();
  return {host.name,
          ranges_text(host.ranks),
          std::to_string(host.threads),
          usable < host.cores ? fmt::format("{:.3g} of {}", usable, host.cores) : std::to_string(host.cores),
          fmt::format("{:.1f}", host.busy_cores),
          memory_text(host),
          three_digits(host.copy_one),
          three_digits(host.copy_all)};
}

}  // namespace

std::string hosts_table(const DoctorReport& report) {
  const HostReport& first = report.hosts.front();
  const bool several = report.hosts.size() > 1;
  Grid grid({left, left, right});
  grid.add({"host", "ranks", "threads", "cores", "busy", "GiB free", "GB/s by 1", "by all", several ? "clock" : ""});
  for (const HostReport& host : report.hosts) {
    auto row = row_of(host);
    row.push_back(&host == &first ? "" : clock_text(host));
    grid.add(row);
  }
  return grid.text() +
         "  threads: of each worker. busy: cores that other processes keep at work. GB/s: memory copied by\n"
         "  one worker while the others sleep, and by all at once.\n" +
         (several ? fmt::format("  clock: ahead of that of {}, or as exactly as can be measured.\n", first.name) : "") +
         sharing(report) + processors(report) + settings(report);
}

std::string devices_table(const DoctorReport& report) {
  const bool several = report.hosts.size() > 1;
  Grid grid({left, left, left, right, right, left});
  grid.add({"host", "device", "address", "speed", "mtu", "kind"});
  for (const HostReport& host : report.hosts) add_devices(host, report.hosts.size() > kManyHosts, grid);
  const HostReport& first = report.hosts.front();
  const std::string use =
      several ? fmt::format("* used between hosts ({})", first.network) : "* would be used between hosts";
  const std::string why = first.device.empty()
                              ? "no device for a job of several hosts: " + first.why
                              : fmt::format("{}, because {}; --device chooses another", use, first.why);
  return grid.text() + "  " + wrap(why, 2);
}

}  // namespace paceline
