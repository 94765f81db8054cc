// Traffic: what the Communicators on one Endpoint share. Whoever waits in one of them moves the operations of all,
// because a peer may need one of those before it can come to where it is waited for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <vector>

#include "paceline/collective/bulletin.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

class CommunicatorState;
class Mover;

// Belongs to the Endpoint's owner, but for the times when that has lent both to a Mover. Communicators enter themselves
// when they are made and leave when they end.
struct Traffic {
  explicit Traffic(Endpoint& endpoint) : bulletin(endpoint) {}

  void enter(CommunicatorState* state) { communicators.push_back(state); }
  void leave(CommunicatorState* state) { std::erase(communicators, state); }

  // Before anything is done with the Endpoint or its Communicators: takes them back from a Mover. own() throws what
  // went wrong there.
  void take_back() noexcept;
  void own();

  Bulletin bulletin;
  std::vector<CommunicatorState*> communicators;
  std::map<std::int64_t, std::uint64_t> besides;  // how many of a name there have been, see Communicator::beside
  Mover* lent_to = nullptr;
  std::exception_ptr failure;  // of a Mover
};

// The Communicators on an Endpoint share it; the first one makes it, the last one takes it along.
std::shared_ptr<Traffic> traffic_of(Endpoint& endpoint);

}  // namespace paceline
