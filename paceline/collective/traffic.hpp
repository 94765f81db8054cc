// Traffic: what the Communicators on one Endpoint share. Whoever waits in one of them moves the operations of all,
// because a peer may need one of those before it can come to where it is waited for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/collective/bulletin.hpp"
#include "paceline/core/group.hpp"
#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/mover.hpp"

namespace paceline {

class CommunicatorState;

// Belongs to the Endpoint's owner, but for the times when it is lent. Communicators enter themselves when they are made
// and leave when they end.
class Traffic {
 public:
  explicit Traffic(Endpoint& endpoint) : bulletin(endpoint), endpoint_(endpoint) {}

  void enter(CommunicatorState* state) { communicators.push_back(state); }
  void leave(CommunicatorState* state) { std::erase(communicators, state); }

  // See Communicator::lend. Before anything is done with the Endpoint or its Communicators they are taken back; own()
  // also throws what went wrong meanwhile.
  void lend();
  bool lent() const { return mover_ != nullptr && mover_->lent(); }
  void take_back() noexcept {
    if (mover_ != nullptr) mover_->recall();
  }
  void own() {
    if (mover_ != nullptr) own_from_mover();
  }

  Bulletin bulletin;
  std::vector<CommunicatorState*> communicators;

 private:
  void own_from_mover();

  Endpoint& endpoint_;
  std::unique_ptr<Mover> mover_;
};

// The Communicators on an Endpoint share it; the first one makes it, the last one takes it along.
std::shared_ptr<Traffic> traffic_of(Endpoint& endpoint);

// A group for the next Communicator that is made of `group` on this Endpoint: the first gets `group` itself, every
// later one a group of the same ranks with a context of its own. What the earlier ones left on the boards would
// otherwise be taken for a peer's operation of the new one. The k-th on one rank is the k-th on all.
Group next_namesake(Endpoint& endpoint, const Group& group);

}  // namespace paceline
