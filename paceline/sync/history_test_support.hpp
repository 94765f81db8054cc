// Machine: a parameter server and its workers as a little abstract machine, without bytes, which leaves a history. What
// may happen next is a list of actions; tests walk through all orders or through random ones. A fault makes it break
// exactly one promise.
//
// A step of a worker: begin, read, `writes` updates, read, end; after its last step it leaves. Each update, end and
// leave is a message; messages of one worker arrive at the server in order, some time later.
#pragma once

#include <algorithm>
#include <compare>
#include <optional>
#include <vector>

#include "paceline/sync/history.hpp"

namespace paceline {

enum class Fault {
  none,
  reads_one_too_old,  // the bound of reads is off by one
  begins_one_early,   // the bound of steps is off by one
  led_by_the_fastest,
  own_writes_hidden,
  applies_early,
  goes_back_in_time,
};

struct MachineShape {
  Policy policy;
  Fault fault = Fault::none;
  int workers = 2;
  std::int64_t clocks = 3;    // steps of each worker
  int writes = 1;             // updates in a step
  bool first_leaves = false;  // worker 0 does one step less
};

// What a reader gets to see.
struct View {
  std::vector<std::int64_t> contained, latest;
  std::int64_t own = 0;
  auto operator<=>(const View&) const = default;
};

class Machine {
 public:
  struct Action {
    enum class Kind { work, read_copy, read_server, read_old, arrive };
    Kind kind;
    int worker;
  };

  explicit Machine(const MachineShape& shape)
      : workers_(static_cast<std::size_t>(shape.workers)), batch_(workers_.size()) {
    for (Worker& worker : workers_) worker.copy = {batch_, batch_, 0};
  }

  std::vector<Action> possible(const MachineShape& shape) const {
    std::vector<Action> actions;
    for (int w = 0; w < shape.workers; ++w) {
      if (at(w).arrived < at(w).sent) actions.push_back({Action::Kind::arrive, w});
      if (at(w).gone) continue;
      if (!reads_next(shape, w)) {
        if (!begins_next(shape, w) || allowed(shape, w)) actions.push_back({Action::Kind::work, w});
        continue;
      }
      if (fresh(shape, w, at(w).copy)) actions.push_back({Action::Kind::read_copy, w});
      if (fresh(shape, w, from_server(shape, w))) actions.push_back({Action::Kind::read_server, w});
      if (shape.fault == Fault::goes_back_in_time && fresh(shape, w, old(shape, w))) {
        actions.push_back({Action::Kind::read_old, w});
      }
    }
    return actions;
  }

  std::optional<Event> perform(const MachineShape& shape, Action action) {
    switch (action.kind) {
      case Action::Kind::arrive: arrive(shape, action.worker); return std::nullopt;
      case Action::Kind::work: return work(shape, action.worker);
      case Action::Kind::read_server: at(action.worker).copy = from_server(shape, action.worker); break;
      case Action::Kind::read_old: at(action.worker).copy = old(shape, action.worker); break;
      case Action::Kind::read_copy: break;
    }
    ++at(action.worker).phase;
    return read(shape, action.worker);
  }

  auto operator<=>(const Machine&) const = default;

 private:
  struct Worker {
    std::int64_t clock = 0;
    int phase = 0;  // 0 begin, 1 read, writes, read, end
    std::int64_t written = 0;
    std::int64_t sent = 0;     // messages
    std::int64_t arrived = 0;  // of those
    bool gone = false;
    View copy;  // what it read last
    auto operator<=>(const Worker&) const = default;
  };

  Worker& at(int w) { return workers_[static_cast<std::size_t>(w)]; }
  const Worker& at(int w) const { return workers_[static_cast<std::size_t>(w)]; }
  static std::int64_t steps_of(const MachineShape& shape, int w) {
    return shape.clocks - (w == 0 && shape.first_leaves);
  }

  bool begins_next(const MachineShape& shape, int w) const {
    return at(w).phase == 0 && at(w).clock < steps_of(shape, w);
  }
  bool reads_next(const MachineShape& shape, int w) const {
    return at(w).phase == 1 || at(w).phase == shape.writes + 2;
  }

  // What the server knows of a worker from its messages: `writes` updates and an end for each step, then a leave.
  static std::int64_t ended(const MachineShape& shape, std::int64_t messages) { return messages / (shape.writes + 1); }
  static std::int64_t updates(const MachineShape& shape, std::int64_t messages) {
    return messages - ended(shape, messages);
  }
  static std::int64_t touched(const MachineShape& shape, std::int64_t messages) {
    return ended(shape, messages + shape.writes);
  }
  bool has_left(const MachineShape& shape, int w) const {
    return at(w).arrived > steps_of(shape, w) * (shape.writes + 1);
  }

  Clocks server_clocks(const MachineShape& shape) const {
    Clocks clocks(shape.workers);
    for (int w = 0; w < shape.workers; ++w) clocks.advance(w, ended(shape, at(w).arrived));
    for (int w = 0; w < shape.workers; ++w) {
      if (has_left(shape, w)) clocks.leave(w);
    }
    return clocks;
  }

  bool allowed(const MachineShape& shape, int w) const {
    const Clocks clocks = server_clocks(shape);
    const std::int64_t early = shape.fault == Fault::begins_one_early ? 1 : 0;
    const bool wrong = shape.fault == Fault::led_by_the_fastest;
    return may_begin(shape.policy, at(w).clock, (wrong ? clocks.fastest() : clocks.slowest()) + early);
  }

  bool fresh(const MachineShape& shape, int w, const View& view) const {
    const std::int64_t too_old = shape.fault == Fault::reads_one_too_old ? 1 : 0;
    const std::int64_t must = must_contain(shape.policy, at(w).clock) - too_old;
    for (int of = 0; of < shape.workers; ++of) {
      if (of == w && reads_own_writes(shape.policy)) continue;
      if (view.contained[static_cast<std::size_t>(of)] < must) return false;
    }
    return true;
  }

  View from_server(const MachineShape& shape, int w) const {
    View view = {batch_, batch_, 0};
    const std::int64_t must = must_contain(shape.policy, at(w).clock);
    const Clocks clocks = server_clocks(shape);
    for (int of = 0; of < shape.workers; ++of) {
      const std::size_t i = static_cast<std::size_t>(of);
      const bool batches = apply_rule(shape.policy) == Apply::after_so_many;
      const std::int64_t messages = batches ? batch_[i] : at(of).arrived;
      view.contained[i] = ended(shape, messages);
      view.latest[i] = std::min(touched(shape, messages), steps_of(shape, of));
      if (of == w) view.own = std::min(updates(shape, messages), at(w).written);
      if (has_left(shape, of) && !batches) view.contained[i] = shape.clocks;  // there is no more to wait for
      if (apply_rule(shape.policy) == Apply::when_all_have_clocked && shape.fault != Fault::applies_early) {
        view.contained[i] = view.latest[i] = clocks.slowest();
      }
      if (shape.policy.kind == Policy::Kind::delayed) {
        view.contained[i] = view.latest[i] = std::min(view.contained[i], must);
        if (of == w) view.own = view.contained[i] * shape.writes;
      }
    }
    forget_what_nobody_looks_at(shape, w, view);
    return view;
  }

  // Fewer states to walk through: only bsp forbids later updates, and a worker that sees its own writes has them from
  // itself.
  static void forget_what_nobody_looks_at(const MachineShape& shape, int w, View& view) {
    if (shape.policy.kind != Policy::Kind::bsp) view.latest = view.contained;
    if (!reads_own_writes(shape.policy)) return;
    view.contained[static_cast<std::size_t>(w)] = view.latest[static_cast<std::size_t>(w)] = 0;
    if (shape.fault != Fault::own_writes_hidden) view.own = 0;
  }

  // No more than must be: from a server that lags behind.
  View old(const MachineShape& shape, int w) const {
    View view = from_server(shape, w);
    const std::int64_t must = must_contain(shape.policy, at(w).clock);
    for (std::int64_t& step : view.contained) step = std::min(step, must);
    for (std::int64_t& step : view.latest) step = std::min(step, must);
    return view;
  }

  Event read(const MachineShape& shape, int w) const {
    View view = at(w).copy;
    const std::size_t i = static_cast<std::size_t>(w);
    if (reads_own_writes(shape.policy)) {
      view.contained[i] = at(w).clock;
      view.latest[i] = at(w).phase > 2 ? at(w).clock + 1 : at(w).clock;
      if (shape.fault != Fault::own_writes_hidden) view.own = at(w).written;
    }
    return {Event::Kind::read, w, at(w).clock, view.own, view.contained, view.latest};
  }

  Event work(const MachineShape& shape, int w) {
    Worker& worker = at(w);
    if (worker.phase == 0 && worker.clock < steps_of(shape, w)) {
      worker.phase = 1;
      return {Event::Kind::begin, w, worker.clock};
    }
    ++worker.sent;
    if (worker.phase == 0) {
      worker.gone = true;
      return {Event::Kind::leave, w, worker.clock};
    }
    if (worker.phase < shape.writes + 2) {
      ++worker.phase;
      return {Event::Kind::write, w, worker.clock, worker.written++};
    }
    worker.phase = 0;
    return {Event::Kind::end, w, worker.clock++};
  }

  void arrive(const MachineShape& shape, int w) {
    const std::int64_t before = updates(shape, at(w).arrived++);
    if (apply_rule(shape.policy) != Apply::after_so_many || has_left(shape, w)) return;
    waiting_ += updates(shape, at(w).arrived) > before;
    if (waiting_ < shape.policy.number) return;
    waiting_ = 0;
    for (int of = 0; of < shape.workers; ++of) batch_[static_cast<std::size_t>(of)] = at(of).arrived;
  }

  std::vector<Worker> workers_;
  std::vector<std::int64_t> batch_;  // softsync: the messages of each worker that the last batch included
  int waiting_ = 0;                  // softsync: updates that wait for the next
};

}  // namespace paceline
