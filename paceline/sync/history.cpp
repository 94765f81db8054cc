#include "paceline/sync/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace paceline {
namespace {

std::size_t at(int worker) { return static_cast<std::size_t>(worker); }

// Of a read: does it say something of every worker?
bool has_contents(const Event& event, std::size_t workers) {
  if (event.kind != Event::Kind::read) return true;
  return event.contained.size() == workers && (event.latest.empty() || event.latest.size() == workers);
}

}  // namespace

History merge_histories(std::vector<History> of_workers) {
  History merged;
  std::vector<std::size_t> next(of_workers.size());
  while (true) {
    std::size_t first = of_workers.size();
    for (std::size_t i = 0; i < of_workers.size(); ++i) {
      if (next[i] == of_workers[i].size()) continue;
      if (first == of_workers.size() || of_workers[i][next[i]].stamp < of_workers[first][next[first]].stamp) first = i;
    }
    if (first == of_workers.size()) return merged;
    merged.push_back(std::move(of_workers[first][next[first]++]));
  }
}

HistoryChecker::HistoryChecker(Policy policy, int workers)
    : policy_(policy), ended_(workers), workers_(static_cast<std::size_t>(workers)) {}

std::optional<Violation> HistoryChecker::add(const Event& event) {
  Found found = check_record(event);
  if (!found && event.kind == Event::Kind::begin) found = check_begin(event);
  if (!found && event.kind == Event::Kind::read) found = check_read(event);
  if (!found) take(event);
  ++events_;
  return found;
}

HistoryChecker::Found HistoryChecker::check_record(const Event& event) const {
  const auto wrong = [&](std::string what) { return violation(Violation::Rule::record, event, std::move(what)); };
  if (event.worker < 0 || event.worker >= ended_.workers()) {
    return wrong(fmt::format("the record names worker {}; there are {}", event.worker, ended_.workers()));
  }
  const Worker& worker = state_of(event.worker);
  if (!ended_.active(event.worker)) return wrong(fmt::format("worker {} goes on after it has left", event.worker));
  if (event.clock != ended_.at(event.worker)) {
    return wrong(fmt::format("worker {} is recorded at clock {} after {} steps", event.worker, event.clock,
                             ended_.at(event.worker)));
  }
  const bool outside = event.kind == Event::Kind::begin || event.kind == Event::Kind::leave;
  const bool inside = event.kind == Event::Kind::write || event.kind == Event::Kind::end;
  if ((outside && worker.in_step) || (inside && !worker.in_step)) {
    return wrong(fmt::format("worker {} at clock {}: {}", event.worker, event.clock,
                             outside ? "the step before has no end" : "the step has no beginning"));
  }
  if (event.kind == Event::Kind::write && event.own != worker.written) {
    return wrong(
        fmt::format("worker {}'s update {} is recorded after {} updates", event.worker, event.own, worker.written));
  }
  return event.kind == Event::Kind::read ? check_contents(event) : std::nullopt;
}

HistoryChecker::Found HistoryChecker::check_contents(const Event& event) const {
  const auto wrong = [&](std::string what) { return violation(Violation::Rule::record, event, std::move(what)); };
  if (!has_contents(event, workers_.size())) {
    return wrong(fmt::format("a read of worker {} says what it had of {} workers; there are {}", event.worker,
                             event.contained.size(), workers_.size()));
  }
  if (event.own > state_of(event.worker).written) {
    return wrong(fmt::format("a read of worker {} has {} of its own updates; it has written {}", event.worker,
                             event.own, state_of(event.worker).written));
  }
  for (int of = 0; of < ended_.workers(); ++of) {
    const std::int64_t had = event.contained[at(of)];
    if (!ended_.active(of) || had <= ended_.at(of)) continue;
    return wrong(fmt::format("a read of worker {} has {} whole steps of worker {}, which has ended {}", event.worker,
                             had, of, ended_.at(of)));
  }
  return std::nullopt;
}

HistoryChecker::Found HistoryChecker::check_begin(const Event& event) const {
  if (may_begin(policy_, event.clock, ended_.slowest())) return std::nullopt;
  int slow = 0;
  while (!ended_.active(slow) || ended_.at(slow) != ended_.slowest()) ++slow;
  return violation(
      Violation::Rule::begin, event,
      fmt::format("worker {} began step {} when worker {} had ended {} steps; {} wants {}", event.worker, event.clock,
                  slow, ended_.slowest(), policy_.text(), must_contain(policy_, event.clock)));
}

HistoryChecker::Found HistoryChecker::check_read(const Event& event) const {
  for (int of = 0; of < ended_.workers(); ++of) {
    if (Found found = check_bound(event, of)) return found;
    if (Found found = check_early(event, of)) return found;
  }
  if (reads_own_writes(policy_) && event.own < state_of(event.worker).written) {
    return violation(Violation::Rule::own_writes, event,
                     fmt::format("the read of worker {} at clock {} has {} of its own updates; it had written {}",
                                 event.worker, event.clock, event.own, state_of(event.worker).written));
  }
  return check_monotone(event);
}

HistoryChecker::Found HistoryChecker::check_bound(const Event& event, int of) const {
  const std::int64_t must = must_contain(policy_, event.clock);
  if (event.contained[at(of)] >= made(of, must)) return std::nullopt;
  return violation(Violation::Rule::bound, event,
                   fmt::format("the read of worker {} at clock {} has only the updates of worker {} before step {}; {} "
                               "promises all before step {}",
                               event.worker, event.clock, of, event.contained[at(of)], policy_.text(), must));
}

HistoryChecker::Found HistoryChecker::check_early(const Event& event, int of) const {
  if (policy_.kind != Policy::Kind::bsp || of == event.worker) return std::nullopt;
  const std::int64_t latest = event.latest.empty() ? 0 : event.latest[at(of)];
  const std::int64_t end = std::max(made(of, event.contained[at(of)]), latest);
  if (end <= event.clock) return std::nullopt;
  return violation(
      Violation::Rule::early, event,
      fmt::format("the read of worker {} at clock {} has an update of worker {}'s step {}; bsp keeps it back "
                  "until all have ended that step",
                  event.worker, event.clock, of, end - 1));
}

HistoryChecker::Found HistoryChecker::check_monotone(const Event& event) const {
  const Worker& before = state_of(event.worker);
  if (event.own < before.own_read) {
    return violation(Violation::Rule::monotone, event,
                     fmt::format("the read of worker {} at clock {} has {} of its own updates; the one before had {}",
                                 event.worker, event.clock, event.own, before.own_read));
  }
  if (before.contained_read.empty()) return std::nullopt;
  for (int of = 0; of < ended_.workers(); ++of) {
    if (made(of, event.contained[at(of)]) >= made(of, before.contained_read[at(of)])) continue;
    return violation(
        Violation::Rule::monotone, event,
        fmt::format("the read of worker {} at clock {} has the updates of worker {} before step {}; the "
                    "one before had those before step {}",
                    event.worker, event.clock, of, event.contained[at(of)], before.contained_read[at(of)]));
  }
  return std::nullopt;
}

void HistoryChecker::take(const Event& event) {
  Worker& worker = workers_[at(event.worker)];
  switch (event.kind) {
    case Event::Kind::begin: worker.in_step = true; break;
    case Event::Kind::read:
      worker.own_read = event.own;
      worker.contained_read = event.contained;
      break;
    case Event::Kind::write: ++worker.written; break;
    case Event::Kind::end:
      worker.in_step = false;
      ended_.advance(event.worker, event.clock + 1);
      break;
    case Event::Kind::leave: ended_.leave(event.worker); break;
  }
}

std::int64_t HistoryChecker::made(int of, std::int64_t step) const {
  return ended_.active(of) ? step : std::min(step, ended_.at(of));
}

Violation HistoryChecker::violation(Violation::Rule rule, const Event& event, std::string sentence) const {
  return {rule, events_, event.worker, event.clock, std::move(sentence)};
}

std::optional<Violation> check_history(const Policy& policy, const History& history, int workers) {
  HistoryChecker checker(policy, workers);
  for (const Event& event : history) {
    if (std::optional<Violation> found = checker.add(event)) return found;
  }
  return std::nullopt;
}

}  // namespace paceline
