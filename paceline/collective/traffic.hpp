// Traffic: what the Communicators on one Endpoint share. Whoever waits in one of them moves the operations of all,
// because a peer may need one of those before it can come to where it is waited for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "paceline/collective/bulletin.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

class CommunicatorState;

// Owned by the Endpoint's thread. Communicators enter themselves when they are made and leave when they end.
struct Traffic {
  explicit Traffic(Endpoint& endpoint) : bulletin(endpoint) {}

  void enter(CommunicatorState* state) { communicators.push_back(state); }
  void leave(CommunicatorState* state) { std::erase(communicators, state); }

  Bulletin bulletin;
  std::vector<CommunicatorState*> communicators;
  std::map<std::int64_t, std::uint64_t> besides;  // how many of a name there have been, see Communicator::beside
};

}  // namespace paceline
