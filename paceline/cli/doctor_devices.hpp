// The network devices of this host, with what the kernel tells about them.
#pragma once

#include <string>
#include <vector>

#include "paceline/cli/doctor_report.hpp"

namespace paceline {

// Those that are up and have an address, as a job sees them.
std::vector<DeviceReport> device_reports();

// ethernet, infiniband, wireless, bridge, tunnel, virtual, loopback, or unknown, by a device's folder under
// /sys/class/net.
std::string device_kind(const std::string& folder);

// 255.255.255.0 → 24, from the bytes of a mask.
int prefix_bits(const unsigned char* mask, std::size_t bytes);

// "10.0.0.1" with 24 bits → "10.0.0.0/24": equal for two addresses of one network. Also of IPv6. Empty if that is no
// address.
std::string network_of(const std::string& address, int bits);

// Fills host.device and host.why. `network` is what the transport says that it uses, empty in a job of one host;
// `asked` is PACELINE_DEVICE.
void name_device(HostReport& host, const std::string& network, const std::string& asked);

}  // namespace paceline
