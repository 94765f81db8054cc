// Bulletin: what a rank tells its peers about itself on its board, without sending a message: the operations it is in
// or was in last, the failure it has seen, and its vote in a recovery. Peers read it whenever they wait too long.
// One per Endpoint, in its Traffic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/collective/descriptor.hpp"
#include "paceline/core/error.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

// "The group is broken, because …"
struct Notice {
  std::uint64_t context = 0;
  std::uint64_t sequence = 0;
  Code code = Code::cancelled;
  Rank culprit = kNoRank;
  Rank reporter = kNoRank;
  OpDescriptor reporters;  // the operation in which the reporter saw it
  OpDescriptor culprits;   // of a mismatch: what the other called instead
};

// A vote in a recovery of the group with this context.
struct Vote {
  static constexpr std::size_t kMaxMembers = 64 * (kBoardWords - 2);
  std::uint64_t context = 0;
  bool committed = false;
  std::vector<bool> alive;  // by index in the broken group
};

class Bulletin {
 public:
  explicit Bulletin(Endpoint& endpoint) : endpoint_(endpoint) {}

  // Puts up a new operation and says under which number; `leave` marks it as left.
  std::size_t enter(const Posted& posted);
  void leave(std::size_t number, Posted posted, TimePoint when);
  // A peer's latest operations, newest first.
  std::vector<Posted> recent(Rank peer) const;

  void give_notice(const Notice& notice);
  std::optional<Notice> notice_of(Rank peer, std::uint64_t context) const;
  void vote(const Vote& vote);
  std::optional<Vote> vote_of(Rank peer, std::uint64_t context, std::size_t members) const;

 private:
  // The peer's record of this group among those of one kind.
  std::optional<BoardRecord> find(Rank peer, std::size_t first, std::size_t slots, std::uint64_t context) const;

  Endpoint& endpoint_;
  std::size_t entered_ = 0;
  std::size_t notices_ = 0;
  std::size_t votes_ = 0;
  std::uint64_t last_vote_ = 0;
};

}  // namespace paceline
