// open_network: what a rank opens to be reached from other hosts. Which of the two implementations is in a build, CMake
// decides: network_ucx.cpp, or network_none.cpp, which says that there is none.
#pragma once

#include <memory>
#include <string>

#include "paceline/fabric/hosts/control.hpp"
#include "paceline/fabric/hosts/wire.hpp"
#include "paceline/launch/devices.hpp"

namespace paceline {

struct NetworkOptions {
  NetworkDevice device;
  std::string rdma = {};  // "mlx5_0:1": to be used in its place
  PortRange ports = {};
  std::string transports = {};  // as UCX_TLS; empty: the best there is
};

// Throws Error.
std::unique_ptr<Wire> open_network(const NetworkOptions& options);

}  // namespace paceline
