#include "paceline/fabric/sim/core.hpp"

#include <exception>

#include "paceline/core/check.hpp"

namespace paceline::sim {
namespace {

constexpr std::uint64_t kMostCallsAfterEnd = 1'000'000;

TimePoint from_start(Duration span) { return span >= kNever - kSimStart ? kNever : kSimStart + span; }

}  // namespace

Core::Core(SimOptions given)
    : options(std::move(given)),
      trace(options.log_events),
      network(options, trace, counters),
      scheduler({.ranks = options.ranks,
                 .seed = options.seed,
                 .lookahead = network.lookahead(),
                 .latest = from_start(options.max_time),
                 .most_calls = options.max_calls},
                network, trace),
      boards(options.ranks, network),
      regions(options.ranks, options.shared_memory),
      lives_(static_cast<std::size_t>(options.ranks)) {
  const auto exists = [&](Rank rank) { return rank >= 0 && rank < options.ranks; };
  network.schedule_cuts();
  network.announce_to(scheduler);
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    life(rank).pauses = Random(options.seed, 0x5a000000 + static_cast<std::uint64_t>(rank));
  }
  for (const Faults::Slow& slow : options.faults.slow) {
    CHECK(exists(slow.rank), "a slow rank is one of the world");
    life(slow.rank).slow = slow;
  }
  for (const Faults::Death& death : options.faults.deaths) {
    CHECK(exists(death.rank), "a rank that dies is one of the world");
    life(death.rank).death = death;
    scheduler.set_alarm(death.rank, from_start(death.at));
  }
}

bool Core::enter(Rank rank, Duration cost, Throws throws) {
  CHECK(scheduler.on_own_thread(rank), "a simulated rank uses its Transport on its own thread");
  Life& mine = life(rank);
  if (mine.state == State::closed && !gone(rank)) return false;
  if (!gone(rank)) {
    ++mine.calls;
    ++counters.calls;
    scheduler.spend(rank, slowed(mine, cost) + pause(rank));
  }
  if (!going_on(rank, throws)) return false;
  network.advance(rank, scheduler.now(rank));
  return true;
}

void Core::wait(Rank rank, TimePoint until) {
  const bool in = enter(rank, options.costs.wait, Throws::yes);
  const TimePoint now = scheduler.now(rank);
  if (!in) {
    // Time passes for a rank on its way out, so that a loop with a deadline ends.
    scheduler.skip(rank, until == kNever || until < now ? Duration(1'000'000) : until - now);
    return;
  }
  if (network.advance(rank, now) || until <= now) return;
  scheduler.sleep(rank, until);
  if (going_on(rank, Throws::yes)) network.advance(rank, scheduler.now(rank));
}

void Core::compute(Rank rank, Duration work) {
  CHECK(scheduler.on_own_thread(rank), "a simulated rank computes on its own thread");
  if (!gone(rank)) scheduler.spend(rank, slowed(life(rank), work));
  going_on(rank, Throws::yes);
}

TimePoint Core::read_clock(Rank rank) {
  CHECK(scheduler.on_own_thread(rank), "a simulated rank reads its Clock on its own thread");
  if (!gone(rank)) {
    scheduler.spend(rank, slowed(life(rank), options.costs.clock));
  } else {
    scheduler.skip(rank, options.costs.clock);
  }
  going_on(rank, Throws::no);
  return scheduler.now(rank);
}

// After time has passed: whether the rank is still there to use it.
bool Core::going_on(Rank rank, Throws throws) {
  Life& mine = life(rank);
  const bool due =
      scheduler.now(rank) >= scheduler.alarm(rank) || (mine.death.at_call != 0 && mine.calls >= mine.death.at_call);
  if (due && !gone(rank)) die(rank);
  if (gone(rank)) leave_or_throw(rank, throws);
  return !gone(rank);
}

void Core::leave_or_throw(Rank rank, Throws throws) {
  CHECK(++life(rank).calls_after_end < kMostCallsAfterEnd,
        "a simulated rank ends when it has died or the run was stopped, instead of calling on and on");
  if (throws == Throws::yes && std::uncaught_exceptions() == 0) throw Unwound{};
}

Duration Core::slowed(Life& whose, Duration cost) const {
  return Duration(static_cast<Duration::rep>(static_cast<double>(cost.count()) * whose.slow.factor));
}

Duration Core::pause(Rank rank) {
  Life& mine = life(rank);
  if (mine.slow.pause_chance <= 0 || mine.pauses.uniform() >= mine.slow.pause_chance) return Duration::zero();
  trace.add({.time = scheduler.now(rank), .event = SimEvent::pause, .rank = rank});
  return Duration(static_cast<Duration::rep>(static_cast<double>(mine.slow.pause.count()) * mine.pauses.uniform()));
}

void Core::die(Rank rank) {
  Life& mine = life(rank);
  const bool was_open = mine.state == State::alive;
  mine.state = State::dead;
  scheduler.set_alarm(rank, kNever);
  if (!was_open) return;
  // A peer may have run ahead by the lookahead and seen what arrives until then.
  const TimePoint crash = scheduler.now(rank) + network.lookahead();
  network.die(rank, scheduler.now(rank), mine.death.how, crash);
  if (mine.death.how == Faults::Kill::host) boards.crash(rank, crash);
  regions.leave(rank);
}

void Core::close(Rank rank) {
  if (!enter(rank, options.costs.put, Throws::no)) return;
  life(rank).state = State::closed;
  network.close(rank, scheduler.now(rank));
  regions.leave(rank);
}

void Core::abandon(Rank rank) {
  if (life(rank).state != State::alive || gone(rank)) return;
  life(rank).state = State::closed;
  network.die(rank, scheduler.now(rank), Faults::Kill::process, kNever);
  regions.leave(rank);
}

}  // namespace paceline::sim
