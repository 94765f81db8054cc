// What `paceline doctor` found out about the hosts of a job and the links between its ranks. Values only: workers fill
// them, they travel as JSON, and tables and findings are made of them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace paceline {

struct DeviceReport {
  std::string name;     // "eth0"
  std::string address;  // "10.0.0.1"
  int prefix_bits = 0;  // of the network that the address is in
  std::string kind;     // ethernet, infiniband, wireless, bridge, tunnel, virtual, loopback
  int mbit = 0;         // per second, as the kernel tells; 0: it does not
  int mtu = 0;
};

struct HostReport {
  std::string name;         // as the user wrote it
  std::string system_name;  // as it calls itself
  std::string machine;      // the same for containers of one machine
  std::string cpu;
  std::vector<int> ranks;
  int threads = 1;                              // per worker, as the job gets them
  std::map<std::string, std::string> settings;  // OMP_NUM_THREADS and its like, in the workers' environment
  int cores = 1;                                // that a worker may run on
  double quota = 0;                             // cores' worth of time that a control group allows; 0: no limit
  double busy_cores = 0;                        // of those, by others, while the job slept
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_bytes = 0;
  bool shares_memory = false;  // its ranks map each other's memory
  double copy_one = 0;         // GB/s: memory copied by one worker while the others sleep,
  double copy_all = 0;         // and by all at once, in sum
  std::vector<DeviceReport> devices;
  std::string device;       // the one that carries, or would carry, the job's messages to other hosts
  std::string why;          // that one
  std::string network;      // how they travel; empty when there is no other host
  double clock_ahead = 0;   // seconds that its wall clock is ahead of the first host's,
  double clock_error = 0;   // and by how much that may be wrong
  double steady_ahead = 0;  // the same of the steady clock, which counts from when the machine was started

  int workers() const { return static_cast<int>(ranks.size()); }
  double usable_cores() const { return quota > 0 && quota < cores ? quota : cores; }
  // nullptr: there is none of that name.
  const DeviceReport* used_device() const;
};

// One direction between two ranks.
struct LinkReport {
  int from = 0;
  int to = 0;
  double latency_us = 0;  // half a round trip of a small message
  double gbps = 0;        // 10^9 bytes per second
};

struct DoctorReport {
  std::string version;
  int cores = 1;  // by which the cost model reckons
  std::vector<HostReport> hosts;
  std::vector<LinkReport> links;
  bool every_pair = true;  // if not: one rank of each host, and neighbours inside the hosts

  int workers() const;
  const HostReport& host_of(int rank) const;
  bool on_one_host(int a, int b) const { return &host_of(a) == &host_of(b); }
};

using Json = nlohmann::ordered_json;
void to_json(Json& json, const LinkReport& link);
void from_json(const Json& json, LinkReport& link);
void to_json(Json& json, const HostReport& host);
void from_json(const Json& json, HostReport& host);
void to_json(Json& json, const DoctorReport& report);
// Throws nlohmann::json::exception: that is none.
void from_json(const Json& json, DoctorReport& report);
// What a host says of itself may be anything, also no UTF-8. `indent` as in dump: -1 makes one line.
std::string text_of(const Json& json, int indent = -1);

}  // namespace paceline
