// History: what workers did, in the order in which it happened, and the check that it kept a policy's promises. Real
// runs, runs in virtual time and model machines leave the same record, so that one judge serves all.
//
// Each worker writes down its own events, with a stamp from an order that all share: a counter, the events of a sim
// run, or the monotonic clock of one host. A stamp is taken before anybody is told of an `end` or `leave`, and after
// the answer that allowed a `begin` or filled a `read`; then a record that breaks a rule shows a promise broken, never
// a race of the recorders.
//
// Values; a HistoryChecker belongs to one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/sync/clocks.hpp"
#include "paceline/sync/policy.hpp"

namespace paceline {

struct Event {
  enum class Kind : std::uint8_t {
    begin,  // of step `clock`
    read,   // by a worker with this clock: between two steps, or in one
    write,  // an update, in step `clock`
    end,    // of step `clock`: the worker's clock is now one more
    leave,  // after `clock` steps: the worker holds up nobody any more
  };

  Kind kind;
  int worker;
  std::int64_t clock;
  // Of a write, its number among those of its worker, from 0. Of a read, how many of the reader's own updates it had.
  std::int64_t own = 0;
  // Of a read, for each worker w: all updates of steps before contained[w] were in it, perhaps some later ones too.
  std::vector<std::int64_t> contained = {};
  // Of a read, for each worker w: no update of step latest[w] or later was in it. Empty if there were no later ones,
  // that is where `contained` says it all. Only bsp forbids later ones.
  std::vector<std::int64_t> latest = {};
  std::int64_t stamp = 0;
};

using History = std::vector<Event>;

// One history out of the workers' own, each of them in order. Of two equal stamps the lower worker's is first.
History merge_histories(std::vector<History> of_workers);

struct Violation {
  enum class Rule {
    record,      // what is written down cannot have happened: the recorder is wrong
    begin,       // a step was begun before the policy allows it
    bound,       // a read lacked updates that it must contain
    own_writes,  // a read lacked updates of the reader itself
    monotone,    // a read contained less than an earlier one of the same worker
    early,       // bsp: a read contained another worker's update of the step that is not over
  };

  Rule rule;
  std::size_t event;  // its place in the history
  int worker;
  std::int64_t clock;
  std::string sentence;
};

// Takes a history event by event. A value: a copy goes on from where the original is.
class HistoryChecker {
 public:
  HistoryChecker(Policy policy, int workers);

  // The promise that this event breaks. After the first one the checker is of no further use.
  std::optional<Violation> add(const Event& event);

  auto operator<=>(const HistoryChecker&) const = default;

 private:
  struct Worker {
    bool in_step = false;
    std::int64_t written = 0;
    std::int64_t own_read = 0;                 // by the last read
    std::vector<std::int64_t> contained_read;  // by the last read; empty before the first
    auto operator<=>(const Worker&) const = default;
  };
  using Found = std::optional<Violation>;

  Found check_record(const Event& event) const;
  Found check_contents(const Event& event) const;
  Found check_begin(const Event& event) const;
  Found check_read(const Event& event) const;
  Found check_bound(const Event& event, int of) const;
  Found check_early(const Event& event, int of) const;
  Found check_monotone(const Event& event) const;
  void take(const Event& event);

  const Worker& state_of(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  // Steps of `of` before this one, without those that it never made because it left.
  std::int64_t made(int of, std::int64_t step) const;
  Violation violation(Violation::Rule rule, const Event& event, std::string sentence) const;

  Policy policy_;
  Clocks ended_;
  std::vector<Worker> workers_;
  std::size_t events_ = 0;
};

// The first promise that a history breaks, if any.
std::optional<Violation> check_history(const Policy& policy, const History& history, int workers);

}  // namespace paceline
