// A job in which nothing is wrong, for tests to spoil.
#pragma once

#include <string>

#include "paceline/cli/doctor_report.hpp"

namespace paceline {

inline HostReport sound_host(const std::string& name, int number, std::vector<int> ranks) {
  HostReport host;
  host.name = host.system_name = name;
  host.machine = "machine " + name;
  host.cpu = "Sound CPU";
  host.ranks = std::move(ranks);
  host.cores = host.workers();
  host.settings = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}};
  host.memory_bytes = std::uint64_t{64} << 30;
  host.available_bytes = std::uint64_t{60} << 30;
  host.shares_memory = host.workers() > 1;
  host.copy_one = 10;
  host.copy_all = 10.0 * host.workers();
  const std::string last = std::to_string(number);
  host.devices = {{"lo", "127.0.0.1", 8, "loopback", 0, 65536},
                  {"eth0", "10.0.0." + last, 24, "ethernet", 10000, 1500}};
  host.device = "eth0";
  host.why = "it leads to the rendezvous store";
  host.network = "ucx over eth0";
  return host;
}

// Every pair of ranks: 5 GB/s inside hosts, 10 Gbit/s between them.
inline void add_links(DoctorReport& report) {
  for (int a = 0; a < report.workers(); ++a) {
    for (int b = 0; b < report.workers(); ++b) {
      const bool beside = report.on_one_host(a, b);
      if (a != b) report.links.push_back({a, b, beside ? 1.0 : 20.0, beside ? 5.0 : 1.2});
    }
  }
}

// Hosts a, b, c … with so many workers each.
inline DoctorReport sound_job(int hosts, int workers = 2) {
  DoctorReport report;
  report.version = "1.2.3";
  report.cores = workers;
  for (int host = 0; host < hosts; ++host) {
    std::vector<int> ranks;
    for (int i = 0; i < workers; ++i) ranks.push_back(host * workers + i);
    report.hosts.push_back(sound_host(std::string(1, static_cast<char>('a' + host)), host + 1, ranks));
  }
  add_links(report);
  return report;
}

}  // namespace paceline
