// Group: an immutable, ordered set of ranks with an epoch. Inside a group a member is known by its index; `at` gives
// the job-wide rank behind an index. A failure, a join or a split makes a new Group, never changes one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/error.hpp"

namespace paceline {

class Group {
 public:
  // All ranks 0 … size-1 of a job, at epoch 0.
  static Group world(int size);
  // `context` must be the same on every member and different from that of any other group alive.
  Group(std::vector<Rank> ranks, std::uint32_t epoch, std::uint64_t context);

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank at(int index) const { return ranks_[static_cast<std::size_t>(index)]; }
  // The index of a job-wide rank in this group, -1 if it is not a member.
  int index_of(Rank rank) const;
  const std::vector<Rank>& ranks() const { return ranks_; }

  std::uint32_t epoch() const { return epoch_; }
  // Marks every message of this group, so that those of another group or of an earlier epoch cannot match.
  std::uint64_t context() const { return context_; }

  // The group that follows this one after a recovery, with the members that are left.
  Group next_epoch(std::vector<Rank> survivors) const;
  // The group of the members that named `color` in this group's `ordinal`-th split.
  Group child(std::vector<Rank> members, std::uint64_t ordinal, std::int64_t color) const;

  bool operator==(const Group&) const = default;

 private:
  std::vector<Rank> ranks_;
  std::uint32_t epoch_;
  std::uint64_t context_;
};

}  // namespace paceline
