// SymbolicRun: all ranks' schedules against each other by the executor's rule, on symbols instead of numbers: steps are
// issued in order, each when those it waits for are complete. A message can end when both its send and its receive are
// issued, and then the two ends learn of it at times of their own. Part of verify.hpp.
#pragma once

#include <array>
#include <vector>

#include "paceline/collective/verify_case.hpp"
#include "paceline/collective/verify_symbols.hpp"
#include "paceline/core/random.hpp"

namespace paceline {

// In which order messages end: as soon as they can, not before nothing else can be done (the latest first), or by
// chance.
struct Order {
  enum class Kind { eager, lazy, random } kind = Kind::eager;
  Random random{0};

  bool issues_first() { return kind == Kind::lazy || (kind == Kind::random && random.below(2) == 0); }
  std::size_t pick(std::size_t among) {
    if (kind == Kind::random) return static_cast<std::size_t>(random.below(among));
    return kind == Kind::lazy ? among - 1 : 0;
  }
};

// Without buffers a send ends only when somebody receives it: what can hang does. With buffers for everything a send
// ends by itself, and its end says nothing about the other side.
enum class Buffers : bool { none, enough };

class SymbolicRun {
 public:
  using Id = Symbols::Id;

  SymbolicRun(VerifyCase& verify_case, Symbols& symbols, Order order, Buffers buffers = Buffers::none);

  // Goes on until all are done or nobody can go on. `absent` never begins.
  void go(int absent = -1);

  bool done(int rank) const;
  bool all_done() const;
  void report_stuck();
  // What a block of the output holds.
  Id held(int rank, int block) const {
    return ranks_[at(rank)].memory[at(static_cast<int>(Buffer::output))][at(block)];
  }
  // See Verdict.
  int rounds() const;

 private:
  // What a rank has issued, which of that is complete, and what its blocks hold.
  struct State {
    std::size_t next = 0;
    std::vector<bool> issued = {}, complete = {};
    std::vector<std::vector<Id>> sent = {};  // by step: what a send found in its blocks
    int depth = 0;                           // messages in the longest chain that led here
    std::vector<int> depths = {};            // by step: the same when it was complete
    std::array<std::vector<Id>, 3> memory = {};
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  State& state(Place place) { return ranks_[at(place.rank)]; }
  State begin(int rank);

  bool issue_one();
  bool can_issue(int rank) const;
  void issue(Place place);
  void begin_message(Place place);
  void arrive();
  void wake(int rank);

  void end(Place place);
  void end_send(Place place);
  void end_receive(Place place);

  void run_local(Place place);
  void run_local_block(Place place, int i);
  void run_direct(Place place, int i);
  std::vector<Id> pieces_to_fold(Place place, int i);
  Id combine(Place place, Id a, Id b);
  Id finish(Place place, Id a);
  Id fold(Place place, const std::vector<Id>& pieces);

  Id& block(int rank, const Blocks& blocks, int i);
  int size_of(int rank, const Blocks& blocks, int i) const;
  void check_size(Place place, int from_rank, const Blocks& from, int i);

  VerifyCase& case_;
  Symbols& symbols_;
  Order order_;
  const Buffers buffers_;
  std::vector<State> ranks_;
  std::vector<int> awake_;      // ranks that may be able to issue a step
  std::vector<Place> endings_;  // ends of messages that can be complete
  int arrived_ = 0;             // at the meeting
};

}  // namespace paceline
