// BucketShare: which buckets of a sparse table one server has, which it gets and which it gives. A state machine
// without rows and messages; its ServerShard owns it.
//
// Note [Moving buckets]. Owners change at a step T that all workers know before they begin it: they ask server 0 when
// they have ended the steps before, and its first answer for T is everybody's. Requests of steps before T go to the old
// owner, later ones to the new, so nobody has to be sent elsewhere. The old owner hands a bucket's rows over when all
// workers have ended the steps before T: by then it has all its updates, since each worker's come over one ordered
// link. The new one holds back what names rows that it has not got yet, with all that the same worker sends after it; a
// clock therefore never overtakes an update. Hence nothing is lost, nothing applied twice, and a read contains what it
// would have. The price is a wait: at step T a worker that needs a moved row waits for all to come to T. (Under bsp it
// would anyway; async, which promises not to wait, is refused.) Only clocks before T are waited for, and moves of T
// only for those of earlier steps, so nobody waits in a circle.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "paceline/server/bucket_moves.hpp"

namespace paceline {

class BucketShare {
 public:
  BucketShare(int index, int servers);

  void count(std::span<const std::uint64_t> keys);
  std::span<const std::uint64_t> loads() const { return loads_; }

  // Of server 0: the owners from this step on. Decided by the loads that come with the first question.
  const BucketOwners& plan(std::int64_t step, std::span<const std::uint64_t> loads);
  // Nobody asks for plans of steps before this one any more.
  void forget_plans(std::int64_t before);

  // Every worker says it; the first counts.
  void adopt(std::int64_t step, const BucketOwners& owners);
  // Whether some of the keys, in a request of this clock, lie on another server still.
  bool awaits(std::int64_t clock, std::span<const std::uint64_t> keys) const;
  bool awaits_any() const;
  // Whether some of all keys do.
  bool awaits_any(std::int64_t clock) const;
  // All rows that server `from` had to give at this step are here. May come before the step is adopted.
  void arrive(int from, std::int64_t step);

  struct HandOver {
    std::int64_t step = 0;
    std::vector<int> to;  // of each bucket; -1: it stays, or is not here
  };
  // What is to be handed over when all have ended the steps before this one.
  std::optional<HandOver> take_due(std::int64_t slowest);

 private:
  struct Change {
    HandOver out;
    bool handed = true;
    std::vector<int> from;  // of each bucket that comes; -1: it does not
    std::set<int> awaited;  // servers
  };

  const int index_;
  const int servers_;
  std::vector<std::uint64_t> loads_;
  std::map<std::int64_t, BucketOwners> plans_;
  BucketOwners planned_;
  BucketOwners owners_;
  std::int64_t adopted_ = 0;
  std::deque<Change> changes_;  // that are not over, by step
  std::set<std::pair<std::int64_t, int>> early_;
};

}  // namespace paceline
