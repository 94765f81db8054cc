// PushCounter: how often keys without a row were pushed, in fixed memory. A count-min sketch (Cormode & Muthukrishnan
// 2005) with conservative update (Estan & Varghese 2002), its four counters of a key in one cache line. It never counts
// too little; it counts too much where keys share all four counters, so that a key may get its row early, never late.
// Counters end at 255. Owned by one thread.
//
// Two generations: `turn` forgets the one before the last, so that pushes count for one to two turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

class PushCounter {
 public:
  // A byte each, in each of two generations; rounded up to a power of two.
  explicit PushCounter(std::size_t counters);

  // One push more; how many that makes.
  unsigned count(std::uint64_t key);
  void turn();
  std::size_t memory_bytes() const { return now_.size() + before_.size(); }

 private:
  std::vector<std::uint8_t> now_;
  std::vector<std::uint8_t> before_;
};

}  // namespace paceline
