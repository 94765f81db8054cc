// HostsTransport: the ranks of one job on several hosts. Ranks of this host are reached through their inboxes, as if
// there were no others; ranks of other hosts through a Wire, with a Control beside it for boards, life and leave. Above
// it stands the one matching queue of Endpoint, which knows nothing of hosts.
//
//   auto endpoint = connect_hosts({.rank = 1, .token = token, .peers = …, .deadline = …}, {door, control, wire});
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/hosts/control.hpp"
#include "paceline/fabric/hosts/link_shape.hpp"
#include "paceline/fabric/hosts/wire.hpp"
#include "paceline/fabric/shm/shm.hpp"

namespace paceline {

// How one rank can be reached.
struct HostsPeer {
  int host = 0;              // ranks with the same number share memory
  std::string door = {};     // shm::Door, for ranks of its host
  std::string control = {};  // ControlDoor
  std::string wire = {};     // Wire::address
  int cores = 1;             // that it may run on
  std::string clock = {};    // ranks for which this is the same text have one steady clock; empty: who knows
  Identity identity = {};
};

struct HostsOptions {
  Rank rank = 0;
  std::string token = {};  // at most 64 bytes, unknown to others; what is on the wire is derived from it
  Token wire_token = {};
  std::vector<HostsPeer> peers = {};  // by rank, this rank included
  TimePoint deadline = kNever;
  Duration silence = std::chrono::seconds(6);  // after which a host that says nothing is given up
  LinkShape link = {};                         // between hosts, if one is to be imitated
  Duration linger = std::chrono::seconds(10);  // how long close() waits for others to take its last frames
};

// What a rank has opened before it knows the others.
struct Doors {
  shm::Door door;
  ControlDoor control;
  std::unique_ptr<Wire> wire;
};

std::unique_ptr<Endpoint> connect_hosts(const HostsOptions& options, Doors doors);

}  // namespace paceline
