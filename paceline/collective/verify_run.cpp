#include "paceline/collective/verify_run.hpp"

#include <algorithm>

namespace paceline {

SymbolicRun::SymbolicRun(VerifyCase& verify_case, Symbols& symbols, Order order, Buffers buffers)
    : case_(verify_case), symbols_(symbols), order_(order), buffers_(buffers) {
  for (int rank = 0; rank < case_.ranks(); ++rank) ranks_.push_back(begin(rank));
}

SymbolicRun::State SymbolicRun::begin(int rank) {
  State s;
  const std::size_t steps = case_.schedule(rank).steps.size();
  s.issued.resize(steps);
  s.complete.resize(steps);
  s.sent.resize(steps);
  s.depths.resize(steps);
  for (const Buffer buffer : {Buffer::input, Buffer::output, Buffer::scratch}) {
    auto& memory = s.memory[at(static_cast<int>(buffer))];
    for (int block = 0; block < case_.blocks_in(rank, buffer); ++block) {
      memory.push_back(buffer == Buffer::scratch ? Symbols::kJunk : symbols_.initial(rank, buffer, block));
    }
  }
  return s;
}

void SymbolicRun::go(int absent) {
  for (int rank = 0; rank < case_.ranks(); ++rank) {
    if (rank != absent) awake_.push_back(rank);
  }
  while (true) {
    if ((endings_.empty() || order_.issues_first()) && issue_one()) continue;
    if (endings_.empty()) return;
    std::swap(endings_[order_.pick(endings_.size())], endings_.back());
    const Place place = endings_.back();
    endings_.pop_back();
    end(place);
  }
}

bool SymbolicRun::done(int rank) const {
  const auto& complete = ranks_[at(rank)].complete;
  return std::find(complete.begin(), complete.end(), false) == complete.end();
}

bool SymbolicRun::all_done() const {
  for (int rank = 0; rank < case_.ranks(); ++rank) {
    if (!done(rank)) return false;
  }
  return true;
}

void SymbolicRun::report_stuck() {
  for (int rank = 0; rank < case_.ranks(); ++rank) {
    const auto& complete = ranks_[at(rank)].complete;
    const auto first = std::find(complete.begin(), complete.end(), false) - complete.begin();
    if (!done(rank)) case_.report({rank, static_cast<int>(first)}, "it waits for ever");
  }
}

int SymbolicRun::rounds() const {
  int most = 0;
  for (const State& s : ranks_) {
    most = std::max(most, s.depth);
    for (const int depth : s.depths) most = std::max(most, depth);
  }
  return most;
}

// ---- issuing

// Issues the next step of one rank that can; a rank that cannot sleeps until one of its messages ends.
bool SymbolicRun::issue_one() {
  while (!awake_.empty()) {
    std::swap(awake_[order_.pick(awake_.size())], awake_.back());
    const int rank = awake_.back();
    if (can_issue(rank)) {
      issue({rank, static_cast<int>(ranks_[at(rank)].next)});
      return true;
    }
    awake_.pop_back();
  }
  return false;
}

void SymbolicRun::wake(int rank) {
  if (std::find(awake_.begin(), awake_.end(), rank) == awake_.end()) awake_.push_back(rank);
}

bool SymbolicRun::can_issue(int rank) const {
  const State& s = ranks_[at(rank)];
  if (s.next == s.complete.size() || s.issued[s.next]) return false;  // issued but not passed: at a meeting
  const auto& waits = case_.schedule(rank).waits[s.next];
  return std::all_of(waits.begin(), waits.end(), [&](int step) { return s.complete[at(step)]; });
}

void SymbolicRun::issue(Place place) {
  State& s = state(place);
  s.issued[at(place.step)] = true;
  for (const int wait : case_.schedule(place.rank).waits[at(place.step)])
    s.depth = std::max(s.depth, s.depths[at(wait)]);
  const Step& step = case_.step(place);
  if (step.action == Action::meet) return arrive();
  ++s.next;
  s.depths[at(place.step)] = s.depth;
  if (step.communicates()) return begin_message(place);
  run_local(place);
  s.complete[at(place.step)] = true;
}

void SymbolicRun::begin_message(Place place) {
  const Step& step = case_.step(place);
  for (int i = 0; i < step.what.count; ++i) {
    Id& held = block(place.rank, step.what, i);
    if (step.action == Action::send) state(place).sent[at(place.step)].push_back(held);
    if (step.action == Action::receive) held = Symbols::kJunk;
  }
  const Place partner = case_.partner(place);
  const bool buffered = buffers_ == Buffers::enough;
  const bool sends = step.action == Action::send;
  if (buffered && sends) endings_.push_back(place);
  if (partner.rank < 0 || !state(partner).issued[at(partner.step)]) return;
  if (!(buffered && sends)) endings_.push_back(place);
  if (!(buffered && !sends)) endings_.push_back(partner);
}

// The last rank to arrive takes all others along.
void SymbolicRun::arrive() {
  if (++arrived_ < case_.ranks()) return;
  arrived_ = 0;
  int depth = 0;
  for (const State& s : ranks_) depth = std::max(depth, s.depth + (case_.ranks() > 1 ? 1 : 0));
  for (int rank = 0; rank < case_.ranks(); ++rank) {
    State& s = ranks_[at(rank)];
    s.depth = depth;
    s.complete[s.next++] = true;
    wake(rank);
  }
}

// ---- ending

void SymbolicRun::end(Place place) {
  State& s = state(place);
  if (case_.step(place).action == Action::send) {
    end_send(place);
  } else {
    end_receive(place);
    const Place sender = case_.partner(place);
    int& depth = s.depths[at(place.step)];
    depth = std::max(depth, state(sender).depths[at(sender.step)] + 1);
  }
  s.complete[at(place.step)] = true;
  wake(place.rank);
}

// What was sent may have been read as late as now.
void SymbolicRun::end_send(Place place) {
  const Step& step = case_.step(place);
  for (int i = 0; i < step.what.count; ++i) {
    if (block(place.rank, step.what, i) != state(place).sent[at(place.step)][at(i)]) {
      case_.report(place, "its block was changed while it was being sent");
    }
  }
}

void SymbolicRun::end_receive(Place place) {
  const Step& step = case_.step(place);
  const Place sender = case_.partner(place);
  const auto& message = state(sender).sent[at(sender.step)];
  for (int i = 0; i < std::min(step.what.count, static_cast<int>(message.size())); ++i) {
    check_size(place, sender.rank, case_.step(sender).what, i);
    Id& held = block(place.rank, step.what, i);
    held = step.action == Action::reduce ? combine(place, held, message[at(i)]) : message[at(i)];
  }
}

}  // namespace paceline
