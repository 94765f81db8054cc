#include "paceline/collective/communicator_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

constexpr Duration kFirstLook = std::chrono::milliseconds(50);
constexpr Duration kLookAgain = std::chrono::milliseconds(200);
constexpr Duration kSecondLook = std::chrono::milliseconds(30);
constexpr Duration kListenAgain = std::chrono::milliseconds(2);
// How long word of what a peer did may take behind a message that shows only that it did something.
constexpr Duration kWordTakes = std::chrono::milliseconds(300);

PlannerFacts planner_facts(const Endpoint& endpoint, const Group& group, const CommunicatorOptions& options) {
  const Transport::Facts& facts = endpoint.facts();
  std::vector<int> hosts;
  for (const Rank rank : group.ranks()) hosts.push_back(facts.hosts[static_cast<std::size_t>(rank)]);
  const bool one_host = std::all_of(hosts.begin(), hosts.end(), [&](int host) { return host == hosts.front(); });
  return {.ranks = group.size(),
          .index = group.index_of(endpoint.rank()),
          .cores = facts.cores,
          .mapped_memory = facts.mapped_memory && one_host,
          .hosts = std::move(hosts),
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
  for (const Rank rank : group.ranks()) history_ = mix(history_, static_cast<std::uint64_t>(rank));
  contexts_ = {group.context()};
  traffic->take_back();
  traffic->enter(this);
}

void CommunicatorState::break_with_parent(const CommunicatorState& parent) {
  contexts_.insert(contexts_.end(), parent.contexts_.begin(), parent.contexts_.end());
}

CommunicatorState::~CommunicatorState() {
  traffic->take_back();
  traffic->leave(this);
}

void CommunicatorState::check_usable() const {
  if (!broken_) return;
  const Error error = error_for(*broken_, broken_->reporters);
  throw Error(error.code(), error.rank(),
              std::string(error.what()) + " (the group is broken since then; recover() gives a new one)");
}

OpDescriptor CommunicatorState::describe(Collective op, const CollectiveOptions& o) {
  OpDescriptor descriptor{.context = group.context(), .sequence = sequence + 1, .op = op, .history = history_};
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
  flight->ended = {};
  flight->look = now + kFirstLook;
  flight->in_doubt_since = {};
  flight->about_to_warn = false;
  active_.push_back(flight);
  Handle handle(this, flight);
  glance(now);
  if (!flight->active) return handle;
  try {
    if (const Rank lost = lost_member(); lost != kNoRank) throw endpoint.departure(lost);
    flight->run.begin(endpoint, group, std::move(request));
    history_ = flight->run.fingerprint();
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
      return broken_.has_value();
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
  if (options.time_waits) flight.ended = endpoint.clock().now();
  last_algorithm = flight.run.algorithm();
  std::erase(active_, &flight);
  bulletin.leave(flight.bulletin_number, flight.posted, endpoint.clock().coarse_now());
}

// A rank whose operations are all complete as soon as it has sent its part never waits, but must see now and then what
// has become of the group and its members.
void CommunicatorState::glance(TimePoint now) {
  if (now < next_glance_) return;
  next_glance_ = now + kFirstLook;
  endpoint.idle(now);
  endpoint.progress();
  if (endpoint.alerts() != alerts_seen_) read_notices();
}

// A group that has lost a member is broken, also for operations that would not have needed it. One that has closed may
// have done its part of this operation before.
Rank CommunicatorState::lost_member() {
  if (endpoint.departures() == departures_seen_) return kNoRank;
  departures_seen_ = endpoint.departures();
  const auto lost =
      std::find_if(group.ranks().begin(), group.ranks().end(), [&](Rank rank) { return endpoint.lost(rank); });
  return lost == group.ranks().end() ? kNoRank : *lost;
}

bool CommunicatorState::test(Flight* flight) {
  if (flight->active) step();
  if (flight->active) watch(*flight);
  return !flight->active;
}

// What only time shows.
void CommunicatorState::watch(Flight& flight) {
  const TimePoint deadline = flight.run.request().deadline;
  const TimePoint now = endpoint.clock().coarse_now();
  if (now >= flight.look) {
    flight.look = now + kLookAgain;
    endpoint.idle(now);  // sees deaths, for those who never wait
    look_around(flight);
  }
  if (flight.active && deadline != kNever && endpoint.clock().now() >= deadline) {
    fail(flight, Error(Code::timeout, kNoRank, "deadline"));
  }
}

void CommunicatorState::wait(Flight* flight) {
  const TimePoint deadline = flight->run.request().deadline;
  while (flight->active) {
    if (step()) continue;
    idle(std::min(flight->look, deadline));
    watch(*flight);
  }
  if (flight->error) throw Error(*flight->error);
}

void CommunicatorState::idle(TimePoint until) {
  if (!options.time_waits) return endpoint.idle(until);
  const TimePoint start = endpoint.clock().now();
  endpoint.idle(until);
  time_waited += endpoint.clock().now() - start;
}

void CommunicatorState::give_up(const std::string& reason, Rank culprit) {
  check_usable();
  const Notice notice{.context = group.context(),
                      .sequence = sequence,
                      .code = Code::unsound,
                      .culprit = culprit,
                      .reporter = endpoint.rank(),
                      .reporters = {},
                      .culprits = {},
                      .reason = reason};
  break_with(notice);
  throw error_for(notice, {});
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

// The first operation that both still have on their boards and called differently: ours, and theirs.
std::optional<std::pair<OpDescriptor, OpDescriptor>> CommunicatorState::disagreement(Rank peer) const {
  std::optional<std::pair<OpDescriptor, OpDescriptor>> first;
  const auto own = bulletin.recent(endpoint.rank());
  for (const Posted& posted : bulletin.recent(peer)) {
    const OpDescriptor& theirs = posted.descriptor;
    if (theirs.context != group.context() || (first && first->first.sequence < theirs.sequence)) continue;
    const auto same_number = [&](const Posted& p) {
      return p.descriptor.context == theirs.context && p.descriptor.sequence == theirs.sequence;
    };
    const auto ours = std::find_if(own.begin(), own.end(), same_number);
    if (ours != own.end() && ours->descriptor.fingerprint() != theirs.fingerprint())
      first = std::pair(ours->descriptor, theirs);
  }
  return first;
}

// Compares boards: are we all in the same operation, and who is not there yet?
void CommunicatorState::look_around(Flight& flight) {
  const OpDescriptor& mine = flight.posted.descriptor;
  std::vector<Rank> missing;
  int lower_waiters = 0;
  bool warned_already = flight.posted.warned;
  for (int index = 0; index < group.size(); ++index) {
    const Rank peer = group.at(index);
    if (index == self) continue;
    if (disagreement(peer)) return fail(flight, Error(Code::mismatch, peer, "other operation"));
    const auto theirs = peers_version(peer, mine);
    if (!has_reached(peer, mine)) {
      missing.push_back(peer);
    } else if (index < self && theirs && theirs->inside()) {
      ++lower_waiters;
      warned_already |= theirs->warned;
    }
  }
  read_notices();  // an alert can be lost with the peer that gave it
  // The lowest rank that waits warns. If it does not, it may itself be stopped: then the next one does, two looks
  // later.
  const Duration waited = endpoint.clock().now() - flight.posted.entered - lower_waiters * 2 * kLookAgain;
  if (!flight.active || waited < options.late_after || warned_already) return;
  // The boards of other hosts are as old as the last look: once more, before we say what another one says at this
  // moment.
  if (!std::exchange(flight.about_to_warn, true)) {
    flight.look = endpoint.clock().now() + kSecondLook;
    return;
  }
  warn_late(flight, missing);
}

void CommunicatorState::warn_late(Flight& flight, const std::vector<Rank>& missing) {
  flight.posted.warned = true;
  bulletin.replace(flight.bulletin_number, flight.posted);
  const Duration waited = endpoint.clock().now() - flight.posted.entered;
  std::string text = fmt::format("paceline: rank {} has waited {:.0f} s in {}", endpoint.rank(), seconds(waited),
                                 flight.posted.descriptor.text());
  if (missing.empty()) text += "; all ranks have reached it, some have not finished it:";
  for (const Rank peer : missing) text += fmt::format("\n  missing: {}: {}", endpoint.describe(peer), last_seen(peer));
  if (missing.empty()) {
    for (const Rank peer : group.ranks()) {
      if (peer != endpoint.rank()) text += fmt::format("\n  {}: {}", endpoint.describe(peer), last_seen(peer));
    }
  }
  warn(text);
}

void CommunicatorState::warn(const std::string& text) const {
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
  if (last.inside())
    return fmt::format("in {}{} for {:.1f} s", last.descriptor.text(), where, seconds(now - last.entered));
  return fmt::format("finished {}{} {:.1f} s ago", last.descriptor.text(), where, seconds(now - last.left));
}

void CommunicatorState::read_notices() {
  alerts_seen_ = endpoint.alerts();
  if (broken_) return;
  for (const Rank peer : group.ranks()) {
    if (peer == endpoint.rank()) continue;
    for (const std::uint64_t context : contexts_) {
      if (const auto notice = bulletin.notice_of(peer, context)) return break_with(*notice);
    }
  }
}

// Who called what, as far as the boards of both still show it. The peer's version of this operation is looked for
// first: if that has arrived by then, what the peer did before has as well, and a difference there is the cause.
bool CommunicatorState::explain(Notice& notice) const {
  const auto theirs = peers_version(notice.culprit, notice.reporters);
  if (const auto calls = disagreement(notice.culprit)) {
    notice.sequence = calls->first.sequence;
    notice.reporters = calls->first;
    if (!calls->first.same_call(calls->second)) notice.culprits = calls->second;
    return true;
  }
  if (theirs) notice.culprits = theirs->descriptor;
  return theirs.has_value();
}

// A message can overtake what its sender has put on its board, which says what the message was of. The error comes
// again until that has arrived.
bool CommunicatorState::may_still_hear(Flight& flight) const {
  const TimePoint now = endpoint.clock().now();
  if (flight.in_doubt_since == TimePoint{}) flight.in_doubt_since = now;
  flight.look = now + kListenAgain;
  return now - flight.in_doubt_since < kWordTakes;
}

void CommunicatorState::fail(Flight& flight, const Error& error) {
  if (broken_) return;
  Notice notice{.context = group.context(),
                .sequence = flight.posted.descriptor.sequence,
                .code = error.code(),
                .culprit = error.rank(),
                .reporter = endpoint.rank(),
                .reporters = flight.posted.descriptor,
                .culprits = {},
                .reason = {}};
  bool clear = true;
  // Both sides of a mismatch refuse the other's message: what failed here says more than that the peer refused.
  if (error.code() == Code::cancelled && error.rank() != endpoint.rank()) {
    if (const Error* own = flight.run.own_failure()) {
      notice.code = own->code();
      notice.culprit = own->rank();
    }
  }
  if (notice.code == Code::mismatch && notice.culprit >= 0) clear = explain(notice);
  // A peer that gave up a message, or left, may have done so because its side of the group broke: its notice says why.
  const bool given_up = notice.code == Code::cancelled && error.rank() != endpoint.rank();
  if (given_up || notice.code == Code::peer_lost) {
    read_notices();
    if (broken_) return;
    clear = !given_up;
  }
  if (clear || !may_still_hear(flight)) break_with(notice);
}

void CommunicatorState::break_with(const Notice& notice) {
  broken_ = notice;
  bulletin.give_notice(notice);  // before anything is given up: peers who see that look here for the reason
  for (Flight* flight : active_) {
    flight->error = error_for(notice, flight->posted.descriptor);
    flight->run.abandon();
    flight->active = false;
    bulletin.leave(flight->bulletin_number, flight->posted, endpoint.clock().coarse_now());
  }
  active_.clear();
}

Error CommunicatorState::error_for(const Notice& notice, const OpDescriptor& mine) const {
  const std::string culprit = notice.culprit >= 0 ? endpoint.describe(notice.culprit) : "";
  std::string sentence;
  switch (notice.code) {
    case Code::mismatch: {
      const bool known = notice.culprits.text() != OpDescriptor{}.text();
      sentence =
          fmt::format("ranks called different operations: {} called {}, {} called {}",
                      endpoint.describe(notice.reporter), notice.reporters.text(), culprit,
                      known ? notice.culprits.text() : "another one, or another one before, or with other sizes");
      break;
    }
    case Code::peer_lost:
      sentence =
          fmt::format("{} failed: {}", mine.text(),
                      endpoint.gone(notice.culprit) ? endpoint.departure(notice.culprit).what() : culprit + " is gone");
      break;
    case Code::timeout:
      sentence = fmt::format("{} failed: {} waited for {} until its deadline", mine.text(),
                             endpoint.describe(notice.reporter), notice.reporters.text());
      break;
    case Code::cancelled:
      sentence = fmt::format("{} failed: {} dropped the handle of {} before it was complete", mine.text(),
                             endpoint.describe(notice.reporter), notice.reporters.text());
      break;
    case Code::invalid:  // the one thing that shows only when all have met
      sentence = fmt::format(
          "{} failed: the shm algorithm needs memory from Endpoint::allocate on every rank, {} passed other memory",
          mine.text(), culprit);
      break;
    case Code::unsound: sentence = fmt::format("{}: {}", culprit, notice.reason); break;
    default:
      sentence = fmt::format("{} failed on {}: {}", notice.reporters.text(), endpoint.describe(notice.reporter),
                             name(notice.code));
  }
  return Error(notice.code, notice.culprit, sentence);
}

}  // namespace paceline
