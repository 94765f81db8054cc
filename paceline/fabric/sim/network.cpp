#include "paceline/fabric/sim/network.hpp"

#include <algorithm>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline::sim {
namespace {

constexpr int kMostRetries = 16;

Duration time_on_wire(const SimLink& shape, const FrameHeader& header, double bytes_per_second) {
  const auto bytes = static_cast<double>(shape.header_bytes + header.bytes);
  return Duration(static_cast<Duration::rep>(bytes * 1e9 / bytes_per_second));
}

Duration scaled(Duration span, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(span.count()) * factor));
}

}  // namespace

Network::Network(const SimOptions& options, Trace& trace, SimCounters& counters)
    : options_(options),
      trace_(trace),
      counters_(counters),
      links_(static_cast<std::size_t>(options.ranks) * static_cast<std::size_t>(options.ranks)),
      inboxes_(static_cast<std::size_t>(options.ranks)),
      next_(static_cast<std::size_t>(options.ranks), kNever) {
  for (Rank from = 0; from < options.ranks; ++from) {
    for (Rank to = 0; to < options.ranks; ++to) {
      Link& one = link(from, to);
      one.shape = options.link_between && from != to ? options.link_between(from, to) : options.link;
      if (options.faults.capacity_frames > 0) one.shape.capacity_frames = options.faults.capacity_frames;
      one.random = Random(options.seed, 0x11000000 + index(from, to));
      CHECK(one.shape.latency >= Duration::zero() && one.shape.bytes_per_second > 0 && one.shape.capacity_frames > 0,
            "a simulated link has a latency, a bandwidth and room for a frame");
    }
  }
  lookahead_ = least_latency();
}

std::size_t Network::index(Rank from, Rank to) const {
  CHECK(from >= 0 && from < options_.ranks && to >= 0 && to < options_.ranks, "the rank is one of the simulated world");
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(options_.ranks) + static_cast<std::size_t>(to);
}

void Network::schedule_cuts() {
  for (const Faults::Cut& one : options_.faults.cuts) cut(one.a, one.b, kSimStart + one.at);
  for (const Faults::Partition& partition : options_.faults.partitions) {
    const auto& side = partition.side;
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      if (std::find(side.begin(), side.end(), rank) != side.end()) continue;
      for (const Rank other : side) cut(rank, other, kSimStart + partition.at);
    }
  }
}

void Network::cut(Rank a, Rank b, TimePoint when) {
  if (a == b) return;
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    Link& one = link(from, to);
    one.cut = std::min(one.cut, when);
    push(to, EventKind::cut, from, 0, when + detection(one));
  }
}

Duration Network::least_latency() const {
  Duration least = Duration::max();
  for (Rank from = 0; from < options_.ranks; ++from) {
    for (Rank to = 0; to < options_.ranks; ++to) {
      if (from != to) least = std::min(least, link(from, to).shape.latency);
    }
  }
  return options_.ranks > 1 ? least : Duration::zero();
}

Duration Network::flight(Link& link) {
  return link.shape.latency + scaled(link.shape.jitter + options_.faults.jitter, link.random.uniform());
}

// Never quicker than a frame: Note [Lookahead] in scheduler.hpp rests on it.
Duration Network::detection(Link& link) {
  return std::max(scaled(options_.detection, 1 + link.random.uniform()), flight(link));
}

// Nothing may arrive in a rank's past: Note [Lookahead] in scheduler.hpp.
void Network::check_causality(Rank to, TimePoint when) const {
  CHECK(when >= inbox(to).seen, "a simulated rank has not run ahead of what can still reach it");
}

void Network::push(Rank to, EventKind kind, Rank peer, std::uint64_t number, TimePoint when) {
  check_causality(to, when);
  enqueue(to, kind, peer, number, when);
  if (scheduler_ != nullptr) scheduler_->announce(when);
}

void Network::enqueue(Rank to, EventKind kind, Rank peer, std::uint64_t number, TimePoint when) {
  inbox(to).events.push({when, mix(options_.seed, events_++), kind, peer, number});
  TimePoint& next = next_[static_cast<std::size_t>(to)];
  next = std::min(next, when);
}

bool Network::put(Rank from, Rank to, const FrameHeader& header, const std::byte* payload, TimePoint now) {
  if (knows_gone(from, to)) {
    ++counters_.dropped;
    return true;
  }
  Link& one = link(from, to);
  const std::uint64_t sequence = one.first_sequence + one.frames.size();
  const bool fits = one.frames_under_way < one.shape.capacity_frames &&
                    (one.bytes_under_way == 0 || one.bytes_under_way + header.bytes <= one.shape.capacity_bytes);
  if (!fits) {
    one.refused = true;
    ++counters_.refused;
    note(now, SimEvent::refused, from, to, sequence, header);
    return false;
  }
  ++one.frames_under_way;
  one.bytes_under_way += header.bytes;
  ++counters_.frames;
  counters_.payload_bytes += header.bytes;
  note(now, SimEvent::put, from, to, sequence, header);
  Frame frame{.header = header, .payload = {}, .departure = std::nullopt};
  if (header.bytes > 0) frame.payload.assign(payload, payload + header.bytes);
  transmit(from, to, std::move(frame), now, now);
  return true;
}

// Decides at once what will become of the frame: the sender of a lost transmission sends it again, later each time.
void Network::transmit(Rank from, Rank to, Frame frame, TimePoint not_before, TimePoint now) {
  Link& one = link(from, to);
  const std::uint64_t sequence = one.first_sequence + one.frames.size();
  const bool ports = through_ports(from, to);
  TimePoint start = std::max(now, one.busy_until);
  if (ports) {
    TimePoint& port = inbox(from).port_out;
    start = std::max(start, port);
    port = start + time_on_wire(one.shape, frame.header, options_.port_bytes_per_second);
  }
  const Duration on_wire = time_on_wire(one.shape, frame.header, one.shape.bytes_per_second);
  one.busy_until = start + on_wire;
  const EventKind kind = ports ? EventKind::at_port : EventKind::frame;
  TimePoint arrival = std::max((ports ? start : one.busy_until) + flight(one), not_before);
  if (from != to) {
    for (int retry = 0; retry < kMostRetries && one.random.uniform() < options_.faults.loss; ++retry) {
      arrival += options_.faults.retry * (1 << std::min(retry, 6));
      ++counters_.transmissions_lost;
      note(now, SimEvent::lost, from, to, sequence, frame.header);
    }
    if (one.random.uniform() < options_.faults.duplicate) {
      push(to, kind, from, sequence, arrival + scaled(options_.faults.retry, 2 * one.random.uniform()));
    }
  }
  one.frames.push_back(std::move(frame));
  push(to, kind, from, sequence, arrival);
}

void Network::close(Rank rank, TimePoint now) {
  note(now, SimEvent::close, rank, kNoRank, 0);
  for (Rank peer = 0; peer < options_.ranks; ++peer) {
    if (peer != rank) transmit(rank, peer, {.header = {}, .payload = {}, .departure = Departure::closed}, now, now);
  }
}

void Network::die(Rank rank, TimePoint now, Faults::Kill how, TimePoint crash) {
  note(now, SimEvent::death, rank, kNoRank, static_cast<std::uint64_t>(how));
  for (Rank peer = 0; peer < options_.ranks; ++peer) {
    if (peer == rank) continue;
    Link& one = link(rank, peer);
    const TimePoint noticed = now + detection(one);
    if (how == Faults::Kill::host) {
      one.cut = std::min(one.cut, crash);
      push(peer, EventKind::cut, rank, 0, noticed);
    } else {
      transmit(rank, peer, {.header = {}, .payload = {}, .departure = Departure::lost}, noticed, now);
    }
  }
}

TimePoint Network::propagate(Rank from, Rank to, Wake wake, TimePoint now) {
  Link& one = link(from, to);
  TimePoint arrival = now + flight(one);
  if (one.random.uniform() < options_.faults.loss) arrival += options_.faults.retry;
  arrival = std::max(arrival, one.last_record);
  if (arrival > one.cut) return kNever;
  check_causality(to, arrival);
  one.last_record = arrival;
  if (wake == Wake::yes) push(to, EventKind::alert, from, 0, arrival);
  return arrival;
}

bool Network::advance(Rank rank, TimePoint now) {
  Inbox& mine = inbox(rank);
  mine.seen = std::max(mine.seen, now);
  while (next_event(rank) <= now) {
    const Event event = mine.events.top();
    mine.events.pop();
    next_[static_cast<std::size_t>(rank)] = mine.events.empty() ? kNever : mine.events.top().time;
    apply(rank, event);
  }
  return !mine.arrived.empty() || mine.alert || mine.room;
}

void Network::apply(Rank rank, const Event& event) {
  switch (event.kind) {
    case EventKind::at_port: pass_port(rank, event); break;
    case EventKind::frame: receive(rank, event); break;
    case EventKind::cut: end(rank, event.peer, Departure::unreachable); break;
    case EventKind::alert: inbox(rank).alert = inbox(rank).alert || event.time <= link(event.peer, rank).cut; break;
    case EventKind::room: {
      Link& mine = link(rank, event.peer);
      --mine.frames_under_way;
      mine.bytes_under_way -= event.number;
      inbox(rank).room = inbox(rank).room || mine.refused;
      mine.refused = false;
    }
  }
}

// Not push(): the rank moves its own frame on, maybe to a moment that it has reached already.
void Network::pass_port(Rank rank, const Event& event) {
  const Link& one = link(event.peer, rank);
  if (one.ended || event.number < one.first_sequence) return receive(rank, event);
  Inbox& mine = inbox(rank);
  const FrameHeader& header = one.frames[event.number - one.first_sequence].header;
  const Duration on_wire = time_on_wire(one.shape, header, options_.port_bytes_per_second);
  mine.port_in = std::max(mine.port_in, event.time) + on_wire;
  enqueue(rank, EventKind::frame, event.peer, event.number, mine.port_in);
}

// The reliable layer.
void Network::receive(Rank rank, const Event& event) {
  Link& one = link(event.peer, rank);
  if (one.ended) return;
  if (event.time > one.cut) {
    ++counters_.vanished;
    note(event.time, SimEvent::vanished, rank, event.peer, event.number);
    return;
  }
  if (event.number < one.first_sequence || one.frames[event.number - one.first_sequence].has_arrived) {
    ++counters_.duplicates_dropped;
    note(event.time, SimEvent::duplicate, rank, event.peer, event.number);
    return;
  }
  Frame& frame = one.frames[event.number - one.first_sequence];
  frame.has_arrived = true;
  if (event.number == one.first_sequence) {
    release_in_order(rank, event.peer);
  } else {
    ++counters_.held;
    note(event.time, SimEvent::held, rank, event.peer, event.number, frame.header);
  }
}

void Network::release_in_order(Rank rank, Rank from) {
  Link& one = link(from, rank);
  while (!one.ended && !one.frames.empty() && one.frames.front().has_arrived) {
    Frame frame = std::move(one.frames.front());
    one.frames.pop_front();
    const std::uint64_t sequence = one.first_sequence++;
    if (frame.departure) {
      end(rank, from, *frame.departure);
    } else {
      inbox(rank).arrived.push_back({from, sequence, frame.header, std::move(frame.payload), std::nullopt});
    }
  }
}

// What was sent and did not arrive in order never will.
void Network::end(Rank rank, Rank peer, Departure how) {
  Link& one = link(peer, rank);
  if (one.ended) return;
  one.ended = true;
  one.first_sequence += one.frames.size();
  one.frames.clear();
  inbox(rank).arrived.push_back({peer, one.first_sequence, {}, {}, how});
}

Arrival Network::take(Rank rank, TimePoint now) {
  Inbox& mine = inbox(rank);
  Arrival arrival = std::move(mine.arrived.front());
  mine.arrived.pop_front();
  if (arrival.departure) {
    ++counters_.departures;
    note(now, SimEvent::departure, rank, arrival.from, static_cast<std::uint64_t>(*arrival.departure));
    return arrival;
  }
  ++counters_.delivered;
  note(now, SimEvent::frame, rank, arrival.from, arrival.sequence, arrival.header);
  push(arrival.from, EventKind::room, rank, arrival.header.bytes, now + flight(link(rank, arrival.from)));
  return arrival;
}

bool Network::take_alert(Rank rank, TimePoint now) {
  if (!inbox(rank).alert) return false;
  inbox(rank).alert = false;
  ++counters_.alerts;
  note(now, SimEvent::alert, rank, kNoRank, 0);
  return true;
}

bool Network::take_room(Rank rank) { return std::exchange(inbox(rank).room, false); }

void Network::note(TimePoint time, SimEvent event, Rank rank, Rank peer, std::uint64_t number,
                   const FrameHeader& header) {
  trace_.add({time, event, rank, peer, number, header});
}

}  // namespace paceline::sim
