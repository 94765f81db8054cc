// Scheduler: lets one rank run at a time, always the one whose virtual time is least.
//
// Note [Lookahead]
// A conservative discrete-event simulation (Chandy & Misra 1979). Nothing that a rank does at time t reaches another
// one before t + lookahead, the least latency of any link. So a rank may run on until it is `lookahead` ahead of the
// slowest one and has still seen everything that arrives by then. This saves most of the hand-offs between threads,
// which cost far more than anything else here, and changes no arrival time.
//
// A rank's thread calls only while it holds the baton, that is, between the return of begin() and its call of finish().
// The baton passes under `mutex_`, which orders everything the ranks do: nothing else in sim needs a lock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/fabric/sim/trace.hpp"

namespace paceline::sim {

// What sleeping ranks wait for.
class EventSource {
 public:
  // When the next event reaches `rank`; kNever if none is under way.
  virtual TimePoint next_event(Rank rank) const = 0;
  // Lets the events up to `now` happen; true if the rank now has a reason to go on.
  virtual bool advance(Rank rank, TimePoint now) = 0;

 protected:
  ~EventSource() = default;
};

class Scheduler {
 public:
  struct Settings {
    int ranks = 1;
    std::uint64_t seed = 1;
    Duration lookahead{0};
    TimePoint latest = kNever;
    std::uint64_t most_calls = 0;
  };
  Scheduler(const Settings& settings, EventSource& events, Trace& trace);

  // From outside: gives the baton to the first rank, once every rank's thread is on its way to begin().
  void start();

  // On the rank's own thread.
  void begin(Rank rank);
  void finish(Rank rank);
  // Lets the rank's time pass, other ranks first where they are behind. May find the run stopped.
  void spend(Rank rank, Duration cost);
  // As spend, without letting others run: for a rank that is on its way out.
  void skip(Rank rank, Duration cost);
  // Sleeps until an event gives the rank a reason to go on, or `until`. May find the run stopped.
  void sleep(Rank rank, TimePoint until);
  // Something will reach another rank then.
  void announce(TimePoint when);

  TimePoint now(Rank rank) const { return seat(rank).now; }
  bool on_own_thread(Rank rank) const { return seat(rank).thread == std::this_thread::get_id(); }
  // The rank's time stops at this moment until the alarm is moved. For deaths.
  void set_alarm(Rank rank, TimePoint when) { seat(rank).alarm = when; }
  TimePoint alarm(Rank rank) const { return seat(rank).alarm; }

  // Why the run was ended; empty while it goes on.
  const std::string& stopped() const { return stopped_; }
  std::uint64_t switches() const { return switches_; }

 private:
  enum class State { ready, asleep, finished };
  struct Seat {
    State state = State::ready;
    TimePoint now;
    TimePoint until = kNever;  // of a sleeping rank
    TimePoint alarm = kNever;
    std::thread::id thread;
    std::condition_variable turn;  // with mutex_
  };

  Seat& seat(Rank rank) { return seats_[static_cast<std::size_t>(rank)]; }
  const Seat& seat(Rank rank) const { return seats_[static_cast<std::size_t>(rank)]; }
  TimePoint next_time(Rank rank) const;
  Rank least();
  bool wake(Rank rank, TimePoint now);
  Rank pick();
  Rank pick_unfinished();
  void look_ahead(Rank running);
  void yield(Rank rank);
  void hand_to(Rank next);
  void await(Rank rank);
  void stop(const std::string& why);
  std::string describe_deadlock() const;

  const Settings settings_;
  EventSource& events_;
  Trace& trace_;

  // Touched only by the holder of the baton.
  std::vector<Seat> seats_;
  Random ties_;
  TimePoint horizon_;  // see Note [Lookahead]
  std::uint64_t calls_ = 0;
  std::uint64_t switches_ = 0;
  std::string stopped_;

  std::mutex mutex_;
  Rank running_ = kNoRank;  // guarded by mutex_
};

}  // namespace paceline::sim
