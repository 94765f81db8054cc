// The Wire over UCX. Frames are active messages. Over which devices they go, WireOptions says; join gives it the IP
// device of the job, and so TCP, or the RDMA device that was asked for.
//
// UCX authenticates nobody: who can reach the port can send. So every message begins with the job's token, and one that
// does not is dropped and counted before anything else of it is looked at. Data travels in clear (docs/security.md).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "paceline/fabric/hosts/wire.hpp"

namespace paceline::ucx {

// Of a frame: enough for a piece of a collective (usual_segment), with a little for whoever wraps it. With its headers
// it is at most 43 packets of 1,448 bytes or 7 of 8,948, which the kernel passes through TCP as one, on links of either
// kind. Frames of 65 KiB, which would be two, were slower on quick links; the packets were not counted.
inline constexpr std::size_t kMaxPayload = 60 * 1024 + 256;
// What precedes it on the wire.
inline constexpr std::size_t kHeaderBytes = 88;
// Frames to one peer that the network has not taken yet. More would only wait in line.
inline constexpr int kFramesInFlight = 16;

struct WireOptions {
  std::string devices = "all";  // as UCX_NET_DEVICES: "eth0", "mlx5_0:1,eth0"
  std::string transports = "";  // as UCX_TLS; empty: all but shared memory, which we do ourselves
  std::string ports = "";       // "7000-7100"; empty: any
};

// Throws Error{system} in UCX's words, with the device's name.
std::unique_ptr<Wire> open_wire(const WireOptions& options);

}  // namespace paceline::ucx
