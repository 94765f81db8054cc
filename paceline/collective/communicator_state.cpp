#include "paceline/collective/communicator_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

constexpr Duration kFirstLook = std::chrono::milliseconds(50);
constexpr Duration kLookAgain = std::chrono::milliseconds(200);

PlannerFacts planner_facts(const Endpoint& endpoint, const Group& group, const CommunicatorOptions& options) {
  return {.ranks = group.size(),
          .index = group.index_of(endpoint.rank()),
          .cores = endpoint.facts().cores,
          .mapped_memory = endpoint.facts().mapped_memory,
          .team_width = options.team_width,
          .cost = options.cost};
}

}  // namespace

CommunicatorState::CommunicatorState(Endpoint& e, Group g, CommunicatorOptions o, std::shared_ptr<Traffic> t)
    : endpoint(e),
      group(std::move(g)),
      options(std::move(o)),
      traffic(std::move(t)),
      bulletin(traffic->bulletin),
      self(group.index_of(endpoint.rank())),
      planner(planner_facts(endpoint, group, options)) {
  if (self < 0) throw Error(Code::invalid, "this rank is not a member of the group");
  traffic->enter(this);
}

CommunicatorState::~CommunicatorState() { traffic->leave(this); }

void CommunicatorState::check_usable() const {
  if (!broken_) return;
  const Error error = error_for(*broken_, broken_->reporters);
  throw Error(error.code(), error.rank(), std::string(error.what()) + " (the group is broken since then; recover() gives a new one)");
}

OpDescriptor CommunicatorState::describe(Collective op, const CollectiveOptions& o) {
  OpDescriptor descriptor{.context = group.context(), .sequence = sequence + 1, .op = op};
  descriptor.set_name(o.name);
  return descriptor;
}

Flight* CommunicatorState::take_flight() {
  if (free_.empty()) return all_.emplace_back(std::make_unique<Flight>()).get();
  Flight* flight = free_.back();
  free_.pop_back();
  return flight;
}

Handle CommunicatorState::launch(Flight* flight, Request&& request, const CollectiveOptions& o) {
  const TimePoint now = endpoint.clock().coarse_now();
  ++sequence;  // not before: a call that was refused for its arguments never happened
  request.deadline = o.timeout == Duration::max() ? kNever : endpoint.clock().after(o.timeout);
  flight->posted = {.descriptor = request.descriptor, .entered = now, .left = {}};
  flight->bulletin_number = bulletin.enter(flight->posted);
  flight->error.reset();
  flight->active = true;
  flight->warned = false;
  active_.push_back(flight);
  Handle handle(this, flight);
  try {
    flight->run.begin(endpoint, group, std::move(request));
    flight->run.advance();
  } catch (const Error& error) {
    fail(*flight, error);
  }
  if (flight->active && flight->run.done()) finish(*flight);
  return handle;
}

// ---- progress

bool CommunicatorState::step() {
  bool any = endpoint.progress();
  for (CommunicatorState* communicator : traffic->communicators) any |= communicator->advance_all();
  return any;
}

bool CommunicatorState::advance_all() {
  bool any = false;
  if (endpoint.alerts() != alerts_seen_) read_notices();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Flight& flight = *active_[i];
    try {
      any |= flight.run.advance();
    } catch (const Error& error) {
      fail(flight, error);
      return true;
    }
  }
  const std::size_t before = active_.size();
  for (std::size_t i = 0; i < active_.size();) {
    if (active_[i]->run.done()) {
      finish(*active_[i]);
    } else {
      ++i;
    }
  }
  return any || active_.size() != before;
}

void CommunicatorState::finish(Flight& flight) {
  flight.active = false;
  last_algorithm = flight.run.algorithm();
  std::erase(active_, &flight);
  bulletin.leave(flight.bulletin_number, flight.posted, endpoint.clock().coarse_now());
}

bool CommunicatorState::test(Flight* flight) {
  if (flight->active) step();
  return !flight->active;
}

void CommunicatorState::wait(Flight* flight) {
  const TimePoint deadline = flight->run.request().deadline;
  TimePoint look = flight->posted.entered + kFirstLook;
  while (flight->active) {
    if (step()) continue;
    endpoint.idle(std::min(look, deadline));
    const TimePoint now = endpoint.clock().coarse_now();
    if (now < std::min(look, deadline)) continue;
    if (now >= look) {
      look_around(*flight);
      look = now + kLookAgain;
    }
    if (flight->active && endpoint.clock().now() >= deadline) fail(*flight, Error(Code::timeout, kNoRank, "deadline"));
  }
  if (flight->error) throw Error(*flight->error);
}

void CommunicatorState::let_go(Flight* flight) {
  if (flight->active) fail(*flight, Error(Code::cancelled, endpoint.rank(), "dropped"));
  free_.push_back(flight);
}

// ---- what goes wrong

// The peer's version of the operation with our sequence number, if it still stands on its board.
std::optional<Posted> CommunicatorState::peers_version(Rank peer, const OpDescriptor& mine) const {
  for (const Posted& posted : bulletin.recent(peer)) {
    if (posted.descriptor.context == mine.context && posted.descriptor.sequence == mine.sequence) return posted;
  }
  return std::nullopt;
}

bool CommunicatorState::has_reached(Rank peer, const OpDescriptor& mine) const {
  const auto recent = bulletin.recent(peer);
  return std::any_of(recent.begin(), recent.end(), [&](const Posted& posted) {
    return posted.descriptor.context == mine.context && posted.descriptor.sequence >= mine.sequence;
  });
}

// Compares boards: are we all in the same operation, and who is not there yet?
void CommunicatorState::look_around(Flight& flight) {
  const OpDescriptor& mine = flight.posted.descriptor;
  std::vector<Rank> missing;
  bool lowest_waiter = true;
  for (int index = 0; index < group.size(); ++index) {
    const Rank peer = group.at(index);
    if (index == self) continue;
    const auto theirs = peers_version(peer, mine);
    if (theirs && theirs->descriptor.fingerprint() != mine.fingerprint()) {
      return fail(flight, Error(Code::mismatch, peer, "other operation"));
    }
    if (!has_reached(peer, mine)) {
      missing.push_back(peer);
    } else if (index < self && theirs && theirs->inside()) {
      lowest_waiter = false;
    }
  }
  read_notices();  // an alert can be lost with the peer that gave it
  const Duration waited = endpoint.clock().now() - flight.posted.entered;
  if (flight.active && lowest_waiter && waited >= options.late_after && !flight.warned) warn_late(flight, missing);
}

void CommunicatorState::warn_late(Flight& flight, const std::vector<Rank>& missing) {
  flight.warned = true;
  const Duration waited = endpoint.clock().now() - flight.posted.entered;
  std::string text = fmt::format("paceline: rank {} has waited {:.0f} s in {}", endpoint.rank(), seconds(waited), flight.posted.descriptor.text());
  if (missing.empty()) text += "; all ranks have reached it, some have not finished it:";
  for (const Rank peer : missing) text += fmt::format("\n  missing: {}: {}", endpoint.describe(peer), last_seen(peer));
  if (missing.empty()) {
    for (const Rank peer : group.ranks()) {
      if (peer != endpoint.rank()) text += fmt::format("\n  {}: {}", endpoint.describe(peer), last_seen(peer));
    }
  }
  if (options.warn) {
    options.warn(text);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

std::string CommunicatorState::last_seen(Rank peer) const {
  const auto recent = bulletin.recent(peer);
  if (recent.empty()) return "has called no collective operation yet";
  const Posted& last = recent.front();
  const TimePoint now = endpoint.clock().now();
  const std::string where = last.descriptor.context == group.context() ? "" : " of another group";
  if (last.inside()) return fmt::format("in {}{} for {:.1f} s", last.descriptor.text(), where, seconds(now - last.entered));
  return fmt::format("finished {}{} {:.1f} s ago", last.descriptor.text(), where, seconds(now - last.left));
}

void CommunicatorState::read_notices() {
  alerts_seen_ = endpoint.alerts();
  if (broken_) return;
  for (const Rank peer : group.ranks()) {
    if (peer == endpoint.rank()) continue;
    if (const auto notice = bulletin.notice_of(peer, group.context())) return break_with(*notice);
  }
}

void CommunicatorState::fail(const Flight& flight, const Error& error) {
  if (broken_) return;
  Notice notice{.context = group.context(),
                .sequence = flight.posted.descriptor.sequence,
                .code = error.code(),
                .culprit = error.rank(),
                .reporter = endpoint.rank(),
                .reporters = flight.posted.descriptor,
                .culprits = {}};
  if (error.code() == Code::mismatch && error.rank() >= 0) {
    // Which operation the other one is in stands on its board; nothing, if it has long gone on.
    if (const auto theirs = peers_version(error.rank(), flight.posted.descriptor)) notice.culprits = theirs->descriptor;
  }
  if (error.code() == Code::cancelled && error.rank() != endpoint.rank()) {
    // A peer gave up a message because its side of the group broke: its own notice says why.
    read_notices();
    if (broken_) return;
  }
  break_with(notice);
}

void CommunicatorState::break_with(const Notice& notice) {
  broken_ = notice;
  for (Flight* flight : active_) {
    flight->error = error_for(notice, flight->posted.descriptor);
    flight->run.abandon();
    flight->active = false;
    bulletin.leave(flight->bulletin_number, flight->posted, endpoint.clock().coarse_now());
  }
  active_.clear();
  bulletin.give_notice(notice);
}

Error CommunicatorState::error_for(const Notice& notice, const OpDescriptor& mine) const {
  const std::string culprit = notice.culprit >= 0 ? endpoint.describe(notice.culprit) : "";
  std::string sentence;
  switch (notice.code) {
    case Code::mismatch: {
      const bool known = notice.culprits.text() != OpDescriptor{}.text();
      sentence = fmt::format("ranks called different operations: {} called {}, {} called {}",
                             endpoint.describe(notice.reporter), notice.reporters.text(), culprit,
                             known ? notice.culprits.text() : "another one or with other sizes");
      break;
    }
    case Code::peer_lost:
      sentence = fmt::format("{} failed: {}", mine.text(),
                             endpoint.gone(notice.culprit) ? endpoint.departure(notice.culprit).what() : culprit + " is gone");
      break;
    case Code::timeout:
      sentence = fmt::format("{} failed: {} waited for {} until its deadline", mine.text(), endpoint.describe(notice.reporter), notice.reporters.text());
      break;
    case Code::cancelled:
      sentence = fmt::format("{} failed: {} dropped the handle of {} before it was complete", mine.text(),
                             endpoint.describe(notice.reporter), notice.reporters.text());
      break;
    case Code::invalid:  // the one thing that shows only when all have met
      sentence = fmt::format("{} failed: the shm algorithm needs memory from Endpoint::allocate on every rank, {} passed other memory",
                             mine.text(), culprit);
      break;
    default:
      sentence = fmt::format("{} failed on {}: {}", notice.reporters.text(), endpoint.describe(notice.reporter), name(notice.code));
  }
  return Error(notice.code, notice.culprit, sentence);
}

}  // namespace paceline
