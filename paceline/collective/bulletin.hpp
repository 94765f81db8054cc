// Bulletin: what a rank tells its peers about itself on its board, without sending a message: the operations it is in
// or was in last, the failure it has seen, and its vote in a recovery. Peers read it whenever they wait too long.
// One per Endpoint, in its Traffic.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
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
  std::string reason;      // of Code::unsound: the reporter's own words, cut to kMaxReason

  static constexpr std::size_t kMaxReason = 8 * (kBoardWords - 8);
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
  // Of notices and of votes. A rank can be that many failures or recoveries ahead of a peer that has not looked yet:
  // two of one group, some more if it is in several.
  static constexpr std::size_t kSlotsOfAKind = 4;

  explicit Bulletin(Endpoint& endpoint) : endpoint_(endpoint) {}

  // Puts up a new operation and says under which number; `leave` marks it as left.
  std::size_t enter(const Posted& posted);
  void leave(std::size_t number, Posted posted, TimePoint when);
  void replace(std::size_t number, const Posted& posted);
  // A peer's latest operations, newest first.
  std::vector<Posted> recent(Rank peer) const;

  void give_notice(const Notice& notice);
  std::optional<Notice> notice_of(Rank peer, std::uint64_t context) const;
  void vote(const Vote& vote);
  std::optional<Vote> vote_of(Rank peer, std::uint64_t context, std::size_t members) const;

 private:
  static constexpr std::size_t kOperationSlots = 8;
  using Operations = std::array<std::optional<BoardRecord>, kOperationSlots>;
  Operations read_operations(Rank peer) const;
  // Which group's record is in which slot of a kind. A later record of a group replaces its earlier one.
  struct Latest {
    std::array<std::uint64_t, kSlotsOfAKind> contexts{};
    std::size_t used = 0;
    std::size_t slot_for(std::uint64_t context);
  };
  // The peer's record of this group among those of one kind.
  std::optional<BoardRecord> find(Rank peer, std::size_t first, std::size_t slots, std::uint64_t context) const;

  Endpoint& endpoint_;
  std::size_t entered_ = 0;
  Latest notices_;
  Latest votes_;
};

}  // namespace paceline
