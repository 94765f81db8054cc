// Handicap: makes workers slower than they are, to see what a plan makes of stragglers. Pure: every worker computes the
// same answer from the seed.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

struct Handicap {
  static constexpr int kAnyone = -1;
  int rank = kAnyone;  // or one that is drawn anew for each step
  double factor = 1;   // how many times as long it computes

  // By how much of its own time a worker computes longer in this step; 0 if it does not.
  double extra(std::int64_t step, int worker, int workers, std::uint64_t seed) const;
};

// random:3, fixed:RANK:3; "" is none. Error{invalid}
Handicap parse_handicap(const std::string& text);
// Error{invalid} if there is no such worker.
void require_worker(const Handicap& handicap, int workers);

}  // namespace paceline
