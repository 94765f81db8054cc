// ServerSeat: a process that is a server of its job and no worker, once it has met the workers and the other servers.
//
//   ServerSeat seat(look_up);  // PACELINE_SERVERS, PACELINE_RANK and what join reads
//   serve(seat.endpoint(), {.workers = …, .index = seat.index(), .servers = seat.servers()});
//
// The workers have the ranks 0 to workers() - 1, servers those after them. Workers meet servers in join, and use them
// through extend. Killed with its launcher, as a worker is. One thread owns it.
#pragma once

#include <memory>
#include <optional>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/launch/environment.hpp"
#include "paceline/launch/lifeline.hpp"

namespace paceline {

class ServerSeat {
 public:
  // Throws Error: an environment that is not a server's, and all that join throws.
  explicit ServerSeat(const Lookup& lookup);

  Endpoint& endpoint() { return *endpoint_; }
  int workers() const { return environment_.size; }
  int servers() const { return environment_.servers; }
  int index() const { return environment_.rank - environment_.size; }

 private:
  const Environment environment_;
  SteadyClock clock_;
  // The endpoint goes first.
  std::optional<Lifeline> lifeline_;
  std::unique_ptr<Endpoint> endpoint_;
};

}  // namespace paceline
