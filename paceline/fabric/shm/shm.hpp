// The shm back end: processes of one host. Each rank owns an inbox in a sealed memfd, which it hands to its peers, with
// an eventfd to wake it by, over an abstract socket. Nothing has a name in the file system, so nothing can be left
// there.
//
//   shm::Door door;                              // listens; publish door.name() through the rendezvous
//   auto endpoint = shm::connect({.rank = 1, .token = token, .peers = all_ranks_in_order, .deadline = …},
//   std::move(door));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/inbox_transport.hpp"

namespace paceline::shm {

// A listening abstract socket with a random name.
class Door {
 public:
  Door();
  const std::string& name() const { return name_; }
  int socket() const { return socket_.number(); }

 private:
  std::string name_;
  Descriptor socket_;
};

struct Peer {
  std::string door;  // name of its Door
  Identity identity;
};

struct ConnectOptions {
  Rank rank = 0;
  std::string token = {};        // the same on all ranks of the job, unknown to others; at most 64 bytes
  std::vector<Peer> peers = {};  // by rank, this rank included
  TimePoint deadline = kNever;
};

// Meets all peers. Throws Error{peer_lost} naming a rank that cannot be reached through shared memory, Error{timeout}
// naming those that did not come.
std::unique_ptr<Endpoint> connect(const ConnectOptions& options, Door door);

// Only the transport, for whoever has ranks of other hosts as well.
std::unique_ptr<InboxTransport> connect_transport(const ConnectOptions& options, Door door);

// The same back end with ranks as threads of this process and one mapping of each inbox, so that a race detector, which
// knows memory by its address, can watch them.
std::vector<std::unique_ptr<Endpoint>> make_shm_thread_endpoints(int size);

}  // namespace paceline::shm
