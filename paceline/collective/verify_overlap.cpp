#include <fmt/format.h>

#include <algorithm>

#include "paceline/collective/verify_case.hpp"

namespace paceline {
namespace {

bool conflict(const std::vector<Touch>& a, const std::vector<Touch>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Touch& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Touch& y) { return (x.writes || y.writes) && x.blocks.overlaps(y.blocks); });
  });
}

// Walks through a rank's steps as they are issued and keeps those that may not be complete by then: local steps are
// complete when issued, a message is only known to be after a step has waited for it. A send may be read from until
// its very end, also after its message has arrived, so what happens on other ranks proves nothing here.
class Underway {
 public:
  explicit Underway(const Schedule& schedule) : schedule_(schedule) {}

  // Those complete before step i, and not before an earlier one.
  std::vector<int> close_for(int i) {
    const auto& waits = schedule_.waits[static_cast<std::size_t>(i)];
    std::vector<int> closed;
    for (const int step : waits) {
      const auto found = std::find(open_.begin(), open_.end(), step);
      if (found == open_.end()) continue;
      open_.erase(found);
      closed.push_back(step);
    }
    return closed;
  }
  void issue(int i) {
    if (schedule_.steps[static_cast<std::size_t>(i)].communicates()) open_.push_back(i);
  }
  const std::vector<int>& open() const { return open_; }

 private:
  const Schedule& schedule_;
  std::vector<int> open_;
};

// Someone's access to a block of someone's mapped output, between the meetings `first` and `last`.
struct Access {
  Place by;
  int first = 0;
  int last = 0;
  bool writes = false;
};

class MappedAccesses {
 public:
  explicit MappedAccesses(VerifyCase& c) : case_(c), blocks_(c.schedule(0).blocks) {
    accesses_.resize(static_cast<std::size_t>(c.ranks() * blocks_));
    for (int rank = 0; rank < c.ranks(); ++rank) collect(rank);
  }

  void check() {
    for (const auto& of_block : accesses_) {
      for (std::size_t i = 0; i < of_block.size(); ++i) {
        for (std::size_t j = i + 1; j < of_block.size(); ++j) check_pair(of_block[i], of_block[j]);
      }
    }
  }

 private:
  void collect(int rank) {
    const int steps = static_cast<int>(case_.schedule(rank).steps.size());
    Underway underway(case_.schedule(rank));
    std::vector<int> since(static_cast<std::size_t>(steps));
    int meetings = 0;
    add_own_use(rank, 0);
    for (int i = 0; i < steps; ++i) {
      for (const int closed : underway.close_for(i))
        add_own(rank, closed, since[static_cast<std::size_t>(closed)], meetings);
      since[static_cast<std::size_t>(i)] = meetings;
      const Step& step = case_.step({rank, i});
      underway.issue(i);
      if (step.action == Action::meet) ++meetings;
      if (!step.communicates()) add_own(rank, i, meetings, meetings);
      add_remote(rank, i, meetings);
    }
    for (const int open : underway.open()) add_own(rank, open, since[static_cast<std::size_t>(open)], meetings);
    add_own_use(rank, meetings);
  }

  void add(int owner, const Blocks& blocks, const Access& access) {
    if (blocks.buffer != Buffer::output) return;
    for (int b = blocks.first; b < blocks.first + blocks.count; ++b) {
      accesses_[static_cast<std::size_t>(owner * blocks_ + b)].push_back(access);
    }
  }
  void add_own(int rank, int i, int first, int last) {
    for (const Touch& touch : touches(case_, {rank, i}))
      add(rank, touch.blocks, {{rank, i}, first, last, touch.writes});
  }
  // Before a rank's first step and after its last, its memory is its caller's, who may do anything with it.
  void add_own_use(int rank, int meetings) {
    const int outputs = case_.blocks_in(rank, Buffer::output);
    if (outputs > 0) add(rank, output(0, outputs), {{rank, -1}, meetings, meetings, true});
  }
  void add_remote(int rank, int i, int meetings) {
    const Step& step = case_.step({rank, i});
    if (step.action == Action::pull) add(step.peer, step.with, {{rank, i}, meetings, meetings, false});
    if (step.action != Action::direct) return;
    for (int peer = 0; peer < case_.ranks(); ++peer) {
      if (peer != rank) add(peer, step.what, {{rank, i}, meetings, meetings, true});
    }
  }

  // What one rank does itself, one after the other, is check_overlap's matter.
  void check_pair(const Access& a, const Access& b) {
    const bool together = a.first <= b.last && b.first <= a.last;
    if (a.by.rank == b.by.rank || !together || !(a.writes || b.writes)) return;
    const Place where = a.by.step >= 0 ? a.by : b.by;
    const Place other = a.by.step >= 0 ? b.by : a.by;
    case_.report(where, other.step >= 0
                            ? fmt::format("no meeting separates it from step {} of rank {}", other.step, other.rank)
                            : fmt::format("no meeting separates it from what rank {}'s caller does with the memory",
                                          other.rank));
  }

  VerifyCase& case_;
  const int blocks_;
  std::vector<std::vector<Access>> accesses_;  // by owner and block
};

}  // namespace

void check_overlap(VerifyCase& c) {
  for (int rank = 0; rank < c.ranks(); ++rank) {
    const int steps = static_cast<int>(c.schedule(rank).steps.size());
    std::vector<std::vector<Touch>> touched;
    Underway underway(c.schedule(rank));
    for (int i = 0; i < steps; ++i) {
      underway.close_for(i);
      touched.push_back(touches(c, {rank, i}));
      for (const int open : underway.open()) {
        if (!conflict(touched.back(), touched[static_cast<std::size_t>(open)])) continue;
        c.report({rank, i}, fmt::format("it can be issued while step {} still needs the same block", open));
      }
      underway.issue(i);
    }
  }
}

void check_mapped(VerifyCase& c) {
  const auto mapped = [](const Schedule& schedule) { return schedule.uses_mapped_memory(); };
  if (std::any_of(c.schedules.begin(), c.schedules.end(), mapped)) MappedAccesses(c).check();
}

}  // namespace paceline
