#include <fmt/format.h>

#include <algorithm>

#include "paceline/collective/verify_case.hpp"

namespace paceline {
namespace {

bool has_peer(const Step& step) { return step.communicates() || step.action == Action::pull; }

bool has_with(const Step& step) {
  return step.action == Action::add || step.action == Action::move || step.action == Action::fold ||
         step.action == Action::pull;
}

// What is wrong with naming these blocks; empty if nothing is. See Layout::find for what it can lay out.
std::string blocks_fault(const VerifyCase& c, int rank, const Blocks& blocks) {
  const int have = c.blocks_in(rank, blocks.buffer);
  if (blocks.count < 1 || blocks.first < 0 || blocks.first + blocks.count > have) {
    return fmt::format("a block that does not exist, of {}", have);
  }
  const int per_copy = c.schedule(rank).blocks;
  if (!c.goal.vector && blocks.count != 1) return "blocks of their own sizes are named one by one";
  if (blocks.buffer != Buffer::scratch) return "";
  if (!c.goal.vector && per_copy != 1) return "scratch for blocks of their own sizes has room for one only";
  if (blocks.first % per_copy + blocks.count > per_copy) return "a range over two copies in scratch";
  return "";
}

std::string operands_fault(const VerifyCase& c, Place place) {
  const Step& step = c.step(place);
  const bool mapped = step.action == Action::direct || step.action == Action::pull;
  if (mapped && step.what.buffer != Buffer::output) return "only the output is mapped";
  if (!has_with(step)) return "";
  if (step.action == Action::pull && step.with.buffer != Buffer::output) return "only the output is mapped";
  if (step.what.count != step.with.count) return "two operands of different sizes";
  const bool same = step.what.buffer == step.with.buffer && step.what.first == step.with.first;
  const bool both_here = step.action != Action::pull;
  if (both_here && !same && step.what.overlaps(step.with)) return "its two operands overlap in part";
  return "";
}

std::string step_fault(const VerifyCase& c, Place place) {
  const Step& step = c.step(place);
  if (has_peer(step) && (step.peer < 0 || step.peer >= c.ranks() || step.peer == place.rank)) {
    return fmt::format("rank {} is not another rank of the group", step.peer);
  }
  if (std::string fault = operands_fault(c, place); !fault.empty()) return fault;
  if (step.action == Action::pull) {
    if (std::string fault = blocks_fault(c, step.peer, step.with); !fault.empty()) return fault;
  }
  for (const Touch& touch : touches(c, place)) {
    if (std::string fault = blocks_fault(c, place.rank, touch.blocks); !fault.empty()) return fault;
    if (touch.writes && touch.blocks.buffer == Buffer::input) return "it changes the input";
  }
  return "";
}

bool check_waits(VerifyCase& c, int rank) {
  const Schedule& schedule = c.schedule(rank);
  if (schedule.waits.size() != schedule.steps.size()) {
    c.report({rank, -1}, "the schedule is not linked");
    return false;
  }
  for (int i = 0; i < static_cast<int>(schedule.steps.size()); ++i) {
    const auto& waits = schedule.waits[static_cast<std::size_t>(i)];
    if (std::all_of(waits.begin(), waits.end(), [i](int wait) { return wait >= 0 && wait < i; })) continue;
    c.report({rank, i}, "it waits for a step that does not come before it");
    return false;
  }
  return true;
}

auto meetings(const Schedule& schedule) {
  return std::count_if(schedule.steps.begin(), schedule.steps.end(),
                       [](const Step& s) { return s.action == Action::meet; });
}

bool check_rank(VerifyCase& c, int rank) {
  bool sound = check_waits(c, rank);
  for (int i = 0; i < static_cast<int>(c.schedule(rank).steps.size()); ++i) {
    const std::string fault = step_fault(c, {rank, i});
    if (fault.empty()) continue;
    c.report({rank, i}, fault);
    sound = false;
  }
  // Every rank cuts the vector by its own schedule: blocks with the same number must be the same bytes.
  if (c.goal.vector && c.schedule(rank).blocks != c.schedule(0).blocks) {
    c.report({rank, -1}, fmt::format("it cuts the vector into {} blocks, rank 0 into {}", c.schedule(rank).blocks,
                                     c.schedule(0).blocks));
    sound = false;
  }
  if (meetings(c.schedule(rank)) != meetings(c.schedule(0))) {
    c.report({rank, -1},
             fmt::format("it meets {} times, rank 0 {} times", meetings(c.schedule(rank)), meetings(c.schedule(0))));
    sound = false;
  }
  return sound;
}

// The steps of `rank` that send to, or else receive from, `peer`.
std::vector<int> ends(const VerifyCase& c, int rank, int peer, bool sends) {
  std::vector<int> found;
  const auto& steps = c.schedule(rank).steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.communicates() && step.peer == peer && (step.action == Action::send) == sends)
      found.push_back(static_cast<int>(i));
  }
  return found;
}

}  // namespace

bool check_form(VerifyCase& c) {
  bool sound = true;
  for (int rank = 0; rank < c.ranks(); ++rank) sound &= check_rank(c, rank);
  return sound;
}

// The k-th send from a to b meets the k-th receive of b from a.
void match_messages(VerifyCase& c) {
  for (const Schedule& schedule : c.schedules) c.partners.emplace_back(schedule.steps.size());
  const auto set = [&](Place of, Place partner) {
    c.partners[static_cast<std::size_t>(of.rank)][static_cast<std::size_t>(of.step)] = partner;
  };
  for (int from = 0; from < c.ranks(); ++from) {
    for (int to = 0; to < c.ranks(); ++to) {
      const std::vector<int> out = ends(c, from, to, true), in = ends(c, to, from, false);
      for (std::size_t k = 0; k < std::min(out.size(), in.size()); ++k) {
        const Place sender{from, out[k]}, receiver{to, in[k]};
        set(sender, receiver);
        set(receiver, sender);
        if (c.step(sender).what.count != c.step(receiver).what.count) {
          c.report(receiver, fmt::format("the message has {} blocks", c.step(sender).what.count));
        }
      }
      for (std::size_t k = in.size(); k < out.size(); ++k) c.report({from, out[k]}, "nobody receives it");
      for (std::size_t k = out.size(); k < in.size(); ++k) c.report({to, in[k]}, "nobody sends it");
    }
  }
}

}  // namespace paceline
