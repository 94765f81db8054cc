// For tests of what reads contain: each worker adds 1 to a row of its own in every step, so that a row's value is the
// number of its worker's updates that a read contains. What it did is written down as a History.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "paceline/core/random.hpp"
#include "paceline/server/server_test_support.hpp"
#include "paceline/sync/history.hpp"

namespace paceline::server_test {

using Note = std::function<void(Event)>;  // takes a worker's events in their order

inline Event read_of(std::span<const float> rows, int worker, std::int64_t clock) {
  Event event{.kind = Event::Kind::read, .worker = worker, .clock = clock};
  for (const float row : rows) event.contained.push_back(std::lround(row));
  event.own = event.contained[static_cast<std::size_t>(worker)];
  return event;
}

inline void work(const TestJob& job, Session& session, Endpoint& endpoint, int steps, const Note& note) {
  const auto stamped = [&](Event event) {
    event.worker = endpoint.rank();
    event.stamp = endpoint.clock().now().time_since_epoch().count();
    note(std::move(event));
  };
  Table table = session.open(
      {.name = "updates", .kind = TableSpec::Kind::dense, .rows = static_cast<std::uint64_t>(job.workers)}, job.filter);
  std::vector<float> rows(static_cast<std::size_t>(job.workers));
  const float one = 1;
  const auto own = static_cast<std::uint64_t>(endpoint.rank());
  Random random(17, own);
  for (int step = 0; step < steps; ++step) {
    table.get({0, rows.size()}, rows);
    stamped({.kind = Event::Kind::begin, .worker = 0, .clock = step});
    stamped(read_of(rows, endpoint.rank(), step));
    stamped({.kind = Event::Kind::write, .worker = 0, .clock = step, .own = step});
    // Before others can see the update: for them it is a whole step.
    stamped({.kind = Event::Kind::end, .worker = 0, .clock = step});
    table.inc({own, own + 1}, {&one, 1});
    if (random.below(3) == 0) endpoint.progress();
    session.clock();
  }
  stamped({.kind = Event::Kind::leave, .worker = 0, .clock = steps});
}

}  // namespace paceline::server_test
