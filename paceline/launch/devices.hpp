// The network devices of this host, and which of them a job uses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"

namespace paceline {

struct NetworkDevice {
  std::string name;     // "eth0"
  std::string address;  // "10.0.0.1"; one entry for each address
  bool loopback = false;
};
// Those that are up and have an address.
std::vector<NetworkDevice> network_devices();

// The one that was asked for, by name or by address; if none was, the one that has `towards`, our side of the
// connection to the rendezvous store: what leads there leads to the others. Throws Error{invalid}, listing what there
// is.
NetworkDevice choose_device(const std::vector<NetworkDevice>& devices, const std::string& asked,
                            const std::string& towards);

// The one that was asked for; if none was, the one that leads out of this host: for whoever others are to find.
// Loopback if there is no other.
NetworkDevice outward_device(const std::vector<NetworkDevice>& devices, const std::string& asked);

// Returns when the kernel counts a device that is up as being in operation too. For a link that has just come up that
// may be a second later, when packets already pass, and UCX leaves out a device before. Throws Error{timeout}.
void await_operation(const NetworkDevice& device, Duration patience, const Clock& clock);

// The RDMA device that was asked for as mlx5_0 or mlx5_0:1, with its port as UCX wants it; nullopt: none was. `known`
// is where the kernel lists them.
std::optional<std::string> rdma_device(const std::string& asked, const std::string& known = "/sys/class/infiniband");

// As this machine calls itself.
std::string host_name();
// What tells hosts apart: equal for two processes that can share memory. The machine, as it was started, and the
// network namespace, since a container's processes cannot find each other's sockets.
std::string host_key();
// What tells steady clocks apart.
std::string clock_key();

}  // namespace paceline
