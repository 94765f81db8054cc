#include <fmt/format.h>

#include "paceline/fabric/ucx/ucx_wire.hpp"
#include "paceline/launch/network.hpp"

namespace paceline {

std::unique_ptr<Wire> open_network(const NetworkOptions& options) {
  ucx::WireOptions how{.devices = options.rdma.empty() ? options.device.name : options.rdma,
                       .transports = options.transports};
  if (options.ports.last > 0) how.ports = fmt::format("{}-{}", options.ports.first, options.ports.last);
  return ucx::open_wire(how);
}

}  // namespace paceline
