// Policy: when the updates of workers meet, as a value with pure functions of clocks. Who moves the bytes asks: may
// this worker begin its next step? what must its read contain? what becomes of an update that has arrived?
//
// A worker's clock is the number of steps it has ended: a worker with clock c is about to do step c, or in it.
// `slowest` is the least clock of the workers that are still active. What each policy promises to a worker with clock
// c:
//
//   bsp         Begins step c when all have ended step c - 1. A read contains all updates of steps before c and of
//   others
//               none of step c. The updates of a step are applied in worker order, once, when all have ended it.
//   ssp:S       Begins step c when all have ended c - S steps: no two workers are more than S + 1 clocks apart. A read
//               contains all updates of steps before c - S, and as many later ones as happen to be there (Ho et al.
//               2013).
//   essp:S      As ssp:S. Besides, updates are sent to the readers without being asked for, so that reads are
//               fresher on average; the bound is the same (Dai et al. 2015).
//   async       Begins at once; a read contains what happens to be there. It is ssp with a bound that is never reached.
//   softsync:K  As async, but the updates are applied in batches: when K have arrived, from whichever workers, their
//               average is (Zhang et al. 2016).
//   local:K     Works for itself between meetings, which are at the clocks 0, K, 2K...: begins step c when all have
//               ended as many steps as there were at the last meeting, and its reads contain those.
//   delayed:D   Begins step c when all have ended c - D steps. A read contains all updates of steps before c - D; the
//               worker's own arrive with those of the others.
//
// Under all of them the reads of one worker go forward only: none contains less than the one before. Where
// `reads_own_writes` says so, a read also contains everything that the worker itself has written before it.
//
// Pure values and functions; any thread may call them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct Policy {
  enum class Kind { bsp, ssp, essp, async, softsync, local, delayed };

  Kind kind = Kind::bsp;
  int number = 0;  // S of ssp and essp, K of softsync and local, D of delayed; 0 for the others

  std::string text() const;  // "ssp:3": what parse_policy reads
  auto operator<=>(const Policy&) const = default;
};

// Throws Error{invalid} with the words there are, or with the numbers that a word takes: S from 0, K from 1, both to a
// million, D from 1 to 16.
Policy parse_policy(std::string_view text);
// One example of each word, for help and errors.
const std::vector<std::string>& policy_words();

// Less than any clock: of a copy that contains nothing yet, not even the start.
inline constexpr std::int64_t kNoClock = -1;

// May a worker that has ended `clock` steps begin the next one? The same as: are all updates that its reads must
// contain made?
bool may_begin(const Policy& policy, std::int64_t clock, std::int64_t slowest);

// A read by a worker with this clock must contain every update that any worker made in steps before the returned one.
// Never below 0, never above `clock`, and never falls as `clock` grows.
std::int64_t must_contain(const Policy& policy, std::int64_t clock);

// Whether a read contains what the same worker wrote before it. Not where updates wait to be averaged with others
// (softsync) or arrive late on purpose (delayed).
bool reads_own_writes(const Policy& policy);

// What a server does with an update that has arrived.
enum class Apply {
  at_once,
  when_all_have_clocked,  // all of a step together, in worker order
  after_so_many,          // when `number` have arrived, their average
};
Apply apply_rule(const Policy& policy);

// Whether a server sends news to readers that have not asked.
bool delivers_eagerly(const Policy& policy);

// Whether a worker that has ended `clock` steps exchanges updates before its next.
bool meets_at(const Policy& policy, std::int64_t clock);

// n-softsync of Zhang et al. 2016 as the K of softsync:K, floor(workers / n) but at least 1: n = 1 waits for as many
// updates as there are workers, n = workers for one.
int softsync_count(int workers, int n);

}  // namespace paceline
