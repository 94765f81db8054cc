// Core: one simulated world, and what every call of a rank has in common: it costs time, it may be the rank's last, and
// it sees what has arrived until then.
//
// Note [Ending a rank]
// A rank that dies, and every rank of a run that is stopped, unwinds by `Unwound`, thrown from a call. It derives from
// nothing, so that code which handles errors does not handle it; where a catch (...) does, the next call throws again.
// A call that is made from a destructor must not throw, and cannot know that it is. So:
//   - put, publish, release, close and Clock::now never throw; from the moment of death they do nothing;
//   - poll, wait, read_board, allocate, map and compute throw, except while the thread is unwinding already. Then they
//     return at once, time passes, and poll says that all peers are lost, so that a loop that waits for them ends.
// A destructor that polls or waits outside of unwinding has to catch (...).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "paceline/fabric/sim/boards.hpp"
#include "paceline/fabric/sim/network.hpp"
#include "paceline/fabric/sim/options.hpp"
#include "paceline/fabric/sim/scheduler.hpp"
#include "paceline/fabric/sim/trace.hpp"

namespace paceline::sim {

struct Unwound {};

enum class Throws : bool { no, yes };

class Core {
 public:
  explicit Core(SimOptions given);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // The start of a rank's call. False: the rank is on its way out, the call must do nothing. See Note [Ending a rank].
  bool enter(Rank rank, Duration cost, Throws throws);
  // As enter, for a call that then sleeps until something arrives or `until`.
  void wait(Rank rank, TimePoint until);
  // Work that takes this long on a rank that is not slow.
  void compute(Rank rank, Duration work);
  TimePoint read_clock(Rank rank);
  // The rank leaves in good order, or its Transport is destroyed without that.
  void close(Rank rank);
  void abandon(Rank rank);

  // The rank has died or the run was stopped.
  bool gone(Rank rank) const { return killed(rank) || !scheduler.stopped().empty(); }
  bool killed(Rank rank) const { return life(rank).state == State::dead; }
  std::uint64_t calls(Rank rank) const { return life(rank).calls; }

  // In the order of construction, each on those before it. All are used by the holder of the baton only.
  const SimOptions options;
  SimCounters counters;
  Trace trace;
  Network network;
  Scheduler scheduler;
  Boards boards;
  Regions regions;

 private:
  enum class State { alive, closed, dead };
  struct Life {
    State state = State::alive;
    std::uint64_t calls = 0;
    std::uint64_t calls_after_end = 0;
    Faults::Slow slow;
    Faults::Death death;
    Random pauses{0};
  };
  Life& life(Rank rank) { return lives_[static_cast<std::size_t>(rank)]; }
  const Life& life(Rank rank) const { return lives_[static_cast<std::size_t>(rank)]; }

  bool going_on(Rank rank, Throws throws);
  void leave_or_throw(Rank rank, Throws throws);
  Duration slowed(Life& whose, Duration cost) const;
  Duration pause(Rank rank);
  void die(Rank rank);

  std::vector<Life> lives_;
};

}  // namespace paceline::sim
