#include "paceline/fabric/sim/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/fabric/sim/options.hpp"

namespace paceline::sim {
namespace {

TimePoint later(TimePoint time, Duration span) { return span >= kNever - time ? kNever : time + span; }

}  // namespace

Scheduler::Scheduler(const Settings& settings, EventSource& events, Trace& trace)
    : settings_(settings),
      events_(events),
      trace_(trace),
      seats_(static_cast<std::size_t>(settings.ranks)),
      ties_(settings.seed, 0x71e5),
      horizon_(kSimStart) {
  for (Seat& one : seats_) one.now = kSimStart;
}

void Scheduler::start() { hand_to(pick()); }

void Scheduler::begin(Rank rank) {
  await(rank);
  seat(rank).thread = std::this_thread::get_id();
}

void Scheduler::finish(Rank rank) {
  seat(rank).state = State::finished;
  trace_.add({.time = now(rank), .event = SimEvent::finish, .rank = rank});
  const Rank next = pick();
  if (next != kNoRank) hand_to(next);
}

void Scheduler::skip(Rank rank, Duration cost) { seat(rank).now = later(now(rank), cost); }

void Scheduler::spend(Rank rank, Duration cost) {
  Seat& mine = seat(rank);
  mine.now = std::min(later(mine.now, cost), std::max(mine.now, mine.alarm));
  if (++calls_ > settings_.most_calls) {
    stop(fmt::format("the run was stopped after {} calls, the last of rank {} at {}: ranks that poll without end?",
                     settings_.most_calls, rank, describe_time(mine.now)));
  } else if (mine.now > horizon_) {
    yield(rank);
  }
}

void Scheduler::sleep(Rank rank, TimePoint until) {
  Seat& mine = seat(rank);
  mine.state = State::asleep;
  mine.until = until;
  trace_.add({.time = mine.now, .event = SimEvent::wait, .rank = rank});
  yield(rank);
}

void Scheduler::announce(TimePoint when) { horizon_ = std::min(horizon_, later(when, settings_.lookahead)); }

TimePoint Scheduler::next_time(Rank rank) const {
  const Seat& one = seat(rank);
  switch (one.state) {
    case State::ready: return one.now;
    case State::asleep: return std::max(one.now, std::min({one.until, one.alarm, events_.next_event(rank)}));
    case State::finished: break;
  }
  return kNever;
}

// The unfinished rank whose turn comes first; one of them by chance if there are several.
Rank Scheduler::least() {
  Rank best = kNoRank;
  TimePoint best_time = kNever;
  std::uint64_t rivals = 0;
  for (Rank rank = 0; rank < settings_.ranks; ++rank) {
    if (seat(rank).state == State::finished) continue;
    const TimePoint time = next_time(rank);
    if (best == kNoRank || time < best_time) {
      best = rank;
      best_time = time;
      rivals = 1;
    } else if (time == best_time && ties_.below(++rivals) == 0) {
      best = rank;
    }
  }
  return best;
}

bool Scheduler::wake(Rank rank, TimePoint now) {
  Seat& one = seat(rank);
  if (!events_.advance(rank, now) && now < one.until && now < one.alarm) return false;
  one.state = State::ready;
  one.now = now;
  trace_.add({.time = now, .event = SimEvent::wake, .rank = rank});
  return true;
}

// Who runs next; kNoRank when all have finished.
Rank Scheduler::pick() {
  while (stopped_.empty()) {
    const Rank rank = least();
    if (rank == kNoRank) return kNoRank;
    const TimePoint time = next_time(rank);
    if (time == kNever) {
      stop(describe_deadlock());
    } else if (time > settings_.latest) {
      stop(fmt::format("the run was stopped at its limit of virtual time, {}", describe_time(settings_.latest)));
    } else if (seat(rank).state == State::ready || wake(rank, time)) {
      look_ahead(rank);
      return rank;
    }
  }
  return pick_unfinished();
}

Rank Scheduler::pick_unfinished() {
  for (Rank rank = 0; rank < settings_.ranks; ++rank) {
    if (seat(rank).state == State::finished) continue;
    seat(rank).state = State::ready;
    return rank;
  }
  return kNoRank;
}

void Scheduler::look_ahead(Rank running) {
  TimePoint others = kNever;
  for (Rank rank = 0; rank < settings_.ranks; ++rank) {
    if (rank != running) others = std::min(others, next_time(rank));
  }
  horizon_ = std::min(later(others, settings_.lookahead), settings_.latest);
}

void Scheduler::yield(Rank rank) {
  const Rank next = pick();
  if (next == rank) return;
  ++switches_;
  hand_to(next);
  await(rank);
}

void Scheduler::hand_to(Rank next) {
  {
    const std::lock_guard lock(mutex_);
    running_ = next;
  }
  seat(next).turn.notify_one();
}

void Scheduler::await(Rank rank) {
  std::unique_lock lock(mutex_);
  seat(rank).turn.wait(lock, [&] { return running_ == rank; });
}

void Scheduler::stop(const std::string& why) {
  stopped_ = why;
  TimePoint time = kSimStart;
  for (const Seat& one : seats_) time = std::max(time, one.now);
  trace_.add({.time = time, .event = SimEvent::stop});
}

std::string Scheduler::describe_deadlock() const {
  std::vector<std::string> parts;
  for (Rank rank = 0; rank < settings_.ranks; ++rank) {
    const char* what = seat(rank).state == State::finished ? "ended at" : "waits since";
    parts.push_back(fmt::format("rank {} {} {}", rank, what, describe_time(now(rank))));
  }
  return fmt::format("deadlock: all ranks wait without a deadline and nothing is under way; {}",
                     fmt::join(parts, "; "));
}

}  // namespace paceline::sim
