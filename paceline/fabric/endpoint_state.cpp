#include "paceline/fabric/endpoint_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

// Eager bytes that may wait unreceived at one peer. Large enough for dozens of full frames, small enough for 64 peers.
constexpr std::uint64_t kEagerWindow = 1 << 20;
constexpr std::size_t kMostStreamed = 192 << 10;
// Frames of one message that leave between two looks at what has come in: large enough to amortise the look, small
// enough that what two ranks exchange stays in their caches.
constexpr int kBurst = 4;

enum CancelledBy : std::uint64_t { sender = 0, receiver = 1 };

// An eager message also occupies a frame's header at the receiver.
std::uint64_t eager_cost(std::size_t payload_bytes) { return payload_bytes + sizeof(FrameHeader); }

}  // namespace

Endpoint::State::State(std::unique_ptr<Transport> t)
    : transport(std::move(t)), facts(transport->facts()), peers_(static_cast<std::size_t>(facts.size)) {
  for (Rank rank = 0; rank < facts.size; ++rank) {
    peer_of(rank).credit = kEagerWindow;
    peer_of(rank).max_payload = transport->max_payload(rank);
    const auto host_of = [&](Rank r) { return facts.hosts[static_cast<std::size_t>(r)]; };
    peer_of(rank).other_host = host_of(rank) != host_of(facts.rank);
  }
}

std::string Endpoint::State::describe(Rank peer) const {
  const Identity& identity = transport->identity(peer);
  return fmt::format("rank {} (host {}, pid {})", peer, identity.host, identity.pid);
}

Error Endpoint::State::departure(Rank peer) const {
  const auto how = peers_[static_cast<std::size_t>(peer)].departed.value_or(Departure::lost);
  const char* what = how == Departure::closed ? " has left the job"
                     : how == Departure::lost ? " has died"
                                              : " can no longer be reached: its host does not answer";
  return Error(Code::peer_lost, peer, describe(peer) + what);
}

// ---- outgoing

Operation* Endpoint::State::send(Rank to, Tag tag, std::span<const std::byte> bytes, std::uint64_t fingerprint) {
  CHECK(to >= 0 && to < facts.size, "a message goes to a rank of the job");
  Peer& peer = peer_of(to);
  const bool at_once = to != facts.rank && peer.queued.empty() && !peer.departed && may_be_eager(peer, bytes.size());
  if (at_once && put_eager(to, peer, tag, bytes, fingerprint)) return nullptr;
  Operation* operation = operations_.take();
  operation->kind = Operation::Kind::send;
  operation->peer = to;
  operation->tag = tag;
  operation->fingerprint = fingerprint;
  operation->source = bytes.data();
  operation->total = bytes.size();
  if (peer.departed) {
    fail(operation, departure(to));
  } else if (to == facts.rank) {
    send_to_self(operation);
  } else {
    peer.queued.push_back(operation);
    note_backlog(to, peer);
    flush(to, peer);
  }
  return operation;
}

bool Endpoint::State::may_be_eager(const Peer& peer, std::size_t bytes) const {
  return bytes <= peer.max_payload && peer.credit >= eager_cost(bytes);
}

// To another host a way there and back costs more than the receiver's copy, should it not expect the message yet. A
// large one is long under way anyway, and its copy would leave the cache.
bool Endpoint::State::may_stream(const Peer& peer, std::size_t bytes) const {
  return peer.other_host && bytes > peer.max_payload && bytes <= kMostStreamed && peer.credit >= eager_cost(bytes);
}

void Endpoint::State::count_sent(const Peer& peer, std::size_t bytes) {
  counters.bytes_sent += bytes;
  if (peer.other_host) counters.bytes_sent_to_other_hosts += bytes;
}

// False when the link has no room now.
bool Endpoint::State::put_eager(Rank to, Peer& peer, const Tag& tag, std::span<const std::byte> bytes,
                                std::uint64_t fingerprint) {
  const FrameHeader header{.kind = FrameKind::eager,
                           .bytes = static_cast<std::uint32_t>(bytes.size()),
                           .context = tag.context,
                           .tag = tag.value,
                           .fingerprint = fingerprint,
                           .total = bytes.size()};
  if (!transport->put(to, header, bytes.data())) return false;
  peer.credit -= eager_cost(bytes.size());
  ++counters.messages_sent;
  count_sent(peer, bytes.size());
  return true;
}

bool Endpoint::State::announce(Rank to, Peer& peer, Operation* operation) {
  if (may_be_eager(peer, operation->total)) {
    // Never a request for want of room alone: a small message must not come to depend on its receiver.
    if (!put_eager(to, peer, operation->tag, {operation->source, operation->total}, operation->fingerprint))
      return false;
    operation->moved = operation->total;
    operation->phase = Operation::Phase::complete;
    return true;
  }
  const bool streams = may_stream(peer, operation->total);
  operation->message = ++last_message_;
  const FrameHeader header{.kind = streams ? FrameKind::stream : FrameKind::request,
                           .context = operation->tag.context,
                           .tag = operation->tag.value,
                           .fingerprint = operation->fingerprint,
                           .total = operation->total,
                           .message = operation->message};
  if (!transport->put(to, header, nullptr)) return false;
  ++counters.messages_sent;
  if (streams) {
    peer.credit -= eager_cost(operation->total);
    operation->phase = Operation::Phase::streaming;
    peer.granted.push_back(operation);
  } else {
    operation->phase = Operation::Phase::requested;
    peer.requested.emplace(operation->message, operation);
  }
  return true;
}

// False when the link had no room for the next frame.
bool Endpoint::State::stream(Rank to, Operation* operation) {
  const std::size_t most = peer_of(to).max_payload;
  for (int frame = 0; frame < kBurst && operation->moved < operation->total; ++frame) {
    const std::size_t bytes = std::min(operation->total - operation->moved, most);
    const FrameHeader header{.kind = FrameKind::data,
                             .bytes = static_cast<std::uint32_t>(bytes),
                             .context = operation->tag.context,
                             .tag = operation->tag.value,
                             .total = operation->total,
                             .message = operation->message,
                             .offset = operation->moved};
    if (!transport->put(to, header, operation->source + operation->moved)) return false;
    operation->moved += bytes;
    count_sent(peer_of(to), bytes);
  }
  return true;
}

// True if anything was sent.
bool Endpoint::State::flush(Rank to, Peer& peer) {
  bool any = false;
  while (!peer.control.empty()) {
    if (!transport->put(to, peer.control.front(), nullptr)) return any;
    peer.control.pop_front();
    any = true;
  }
  while (!peer.queued.empty()) {
    if (!announce(to, peer, peer.queued.front())) return any;
    peer.queued.pop_front();
    any = true;
  }
  if (peer.granted.empty()) return any;
  Operation* operation = peer.granted.front();
  const std::size_t before = operation->moved;
  stream(to, operation);
  if (operation->moved == operation->total) {
    operation->phase = Operation::Phase::complete;
    peer.granted.pop_front();
    return true;
  }
  return any || operation->moved > before;
}

void Endpoint::State::put_control(Rank to, const FrameHeader& header) {
  Peer& peer = peer_of(to);
  if (peer.departed) return;
  if (peer.control.empty() && transport->put(to, header, nullptr)) return;
  peer.control.push_back(header);
  note_backlog(to, peer);
}

void Endpoint::State::note_backlog(Rank to, Peer& peer) {
  if (!std::exchange(peer.listed, true)) backlogs_.push_back(to);
}

void Endpoint::State::send_to_self(Operation* operation) {
  const FrameHeader header{.kind = FrameKind::eager,
                           .context = operation->tag.context,
                           .tag = operation->tag.value,
                           .fingerprint = operation->fingerprint,
                           .total = operation->total};
  const std::span payload(operation->source, operation->total);
  Operation* receive = posted_.find(facts.rank, operation->tag);
  if (receive == nullptr) {
    park(facts.rank, header, payload);
  } else if (accept(receive, facts.rank, header)) {
    take(receive, payload);
  }
  operation->moved = operation->total;
  operation->phase = Operation::Phase::complete;
}

bool Endpoint::State::progress() {
  bool any = transport->poll(*this);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < backlogs_.size(); ++i) {
    const Rank to = backlogs_[i];
    Peer& peer = peer_of(to);
    if (peer.has_backlog()) any |= flush(to, peer);
    peer.listed = peer.has_backlog();
    if (peer.listed) backlogs_[kept++] = to;
  }
  backlogs_.resize(kept);
  return any;
}

// ---- incoming

void Endpoint::State::on_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) {
  switch (header.kind) {
    case FrameKind::eager: return on_eager(from, header, payload);
    case FrameKind::request:
    case FrameKind::stream: return on_request(from, header);
    case FrameKind::grant: return on_grant(from, header);
    case FrameKind::data: return on_data(from, header, payload);
    case FrameKind::cancel: return on_cancel(from, header);
    case FrameKind::credit: peer_of(from).credit = std::min(kEagerWindow, peer_of(from).credit + header.total); return;
  }
  break_off(from);
}

void Endpoint::State::on_eager(Rank from, const FrameHeader& header, std::span<const std::byte> payload) {
  if (header.total != payload.size()) return break_off(from);
  const bool retired = !retired_.empty() && retired_.contains(header.context);
  Operation* receive = retired ? nullptr : posted_.find(from, {header.context, header.tag});
  if (receive == nullptr && !retired) {
    park(from, header, payload);
    return;
  }
  return_credit(from, payload.size());
  if (retired || !accept(receive, from, header)) return;
  take(receive, payload);
}

void Endpoint::State::on_request(Rank from, const FrameHeader& header) {
  if (header.kind == FrameKind::stream && header.total > kEagerWindow) return break_off(from);
  if (!retired_.empty() && retired_.contains(header.context)) return refuse(from, header);
  Operation* receive = posted_.find(from, {header.context, header.tag});
  if (receive == nullptr) {
    Arrival* arrival = park(from, header, {});
    if (header.kind != FrameKind::stream) return;
    arrival->payload.reserve(header.total);
    peer_of(from).parked.emplace(header.message, arrival);
  } else if (accept(receive, from, header)) {
    header.kind == FrameKind::stream ? fill(receive, from, header) : grant(receive, from, header);
  }
}

// Checks whether the matched message may enter the receive; if not, the receive fails and the message is refused.
bool Endpoint::State::accept(Operation* receive, Rank from, const FrameHeader& header) {
  posted_.remove(receive);
  receive->peer = from;
  receive->total = header.total;
  if (receive->fingerprint != 0 && receive->fingerprint != header.fingerprint) {
    fail(receive, Error(Code::mismatch, from, describe(from) + " sent a message of another operation"));
  } else if (receive->growing != nullptr) {
    receive->growing->resize(header.total);
    receive->into = *receive->growing;
  } else if (header.total > receive->into.size() || (receive->exact && header.total != receive->into.size())) {
    fail(receive, Error(receive->exact ? Code::mismatch : Code::invalid, from,
                        fmt::format("{} sent a message of {} bytes into a buffer of {}", describe(from), header.total,
                                    receive->into.size())));
  }
  if (receive->ended() && header.kind != FrameKind::eager) refuse(from, header);
  return !receive->ended();
}

// The message's data comes, or has come, without a grant.
void Endpoint::State::fill(Operation* receive, Rank from, const FrameHeader& header) {
  ++counters.messages_received;
  receive->message = header.message;
  receive->phase = Operation::Phase::streaming;
  receive->credited = true;
  note_incoming(from, receive);
}

// Two messages under one number are no mistake that a sound peer makes.
void Endpoint::State::note_incoming(Rank from, Operation* receive) {
  if (peer_of(from).incoming.emplace(receive->message, receive).second) return;
  break_off(from);
  fail(receive, departure(from));
}

void Endpoint::State::grant(Operation* receive, Rank from, const FrameHeader& header) {
  ++counters.messages_received;
  receive->message = header.message;
  receive->phase = Operation::Phase::streaming;
  if (receive->total == 0) receive->phase = Operation::Phase::complete;
  if (!receive->ended()) note_incoming(from, receive);
  put_control(from,
              {.kind = FrameKind::grant, .context = header.context, .tag = header.tag, .message = header.message});
}

void Endpoint::State::take(Operation* receive, std::span<const std::byte> payload) {
  if (!payload.empty()) {
    std::byte* into = receive->into.data() + receive->moved;
    if (receive->combine == nullptr) {
      std::memcpy(into, payload.data(), payload.size());
    } else {
      receive->combine(into, payload.data(), payload.size());
    }
  }
  receive->moved += payload.size();
  counters.bytes_received += payload.size();
  if (receive->phase == Operation::Phase::queued) ++counters.messages_received;
  if (receive->moved == receive->total) receive->phase = Operation::Phase::complete;
}

void Endpoint::State::on_grant(Rank from, const FrameHeader& header) {
  Peer& peer = peer_of(from);
  const auto found = peer.requested.find(header.message);
  if (found == peer.requested.end()) return;  // cancelled meanwhile
  Operation* operation = found->second;
  peer.requested.erase(found);
  operation->phase = operation->total == 0 ? Operation::Phase::complete : Operation::Phase::streaming;
  if (operation->ended()) return;
  peer.granted.push_back(operation);
  note_backlog(from, peer);
}

void Endpoint::State::on_data(Rank from, const FrameHeader& header, std::span<const std::byte> payload) {
  Peer& peer = peer_of(from);
  const auto found = peer.incoming.find(header.message);
  if (found == peer.incoming.end()) return on_parked_data(from, header, payload);
  Operation* receive = found->second;
  const bool fits = header.offset == receive->moved && payload.size() <= receive->total - receive->moved;
  if (!fits || payload.empty()) return break_off(from);
  take(receive, payload);
  if (receive->ended()) end_incoming(from, receive);
}

// Of a message that nobody has asked for yet, or not any more.
void Endpoint::State::on_parked_data(Rank from, const FrameHeader& header, std::span<const std::byte> payload) {
  const auto found = peer_of(from).parked.find(header.message);
  if (found == peer_of(from).parked.end()) return;  // cancelled meanwhile
  Arrival& arrival = *found->second;
  const bool fits =
      header.offset == arrival.payload.size() && payload.size() <= arrival.header.total - arrival.payload.size();
  if (!fits || payload.empty()) return break_off(from);
  arrival.payload.insert(arrival.payload.end(), payload.begin(), payload.end());
}

// Nothing more goes into this receive.
void Endpoint::State::end_incoming(Rank from, Operation* receive) {
  peer_of(from).incoming.erase(receive->message);
  if (std::exchange(receive->credited, false)) return_credit(from, receive->total);
}

void Endpoint::State::on_cancel(Rank from, const FrameHeader& header) {
  Peer& peer = peer_of(from);
  if (header.offset == CancelledBy::receiver) {
    const Error error(Code::cancelled, from, describe(from) + " does not take the message");
    if (const auto found = peer.requested.find(header.message); found != peer.requested.end()) {
      fail(found->second, error);
      peer.requested.erase(found);
    }
    std::erase_if(peer.granted, [&](Operation* operation) {
      if (operation->message != header.message) return false;
      fail(operation, error);
      return true;
    });
    return;
  }
  if (const auto found = peer.incoming.find(header.message); found != peer.incoming.end()) {
    Operation* receive = found->second;
    fail(receive, Error(Code::cancelled, from, describe(from) + " gave up sending the message"));
    end_incoming(from, receive);
  }
  const auto withdrawn = [&](const Arrival& arrival) {
    return arrival.peer == from && arrival.header.kind != FrameKind::eager && arrival.header.message == header.message;
  };
  for (Arrival* arrival : unexpected_.select(withdrawn)) {
    if (arrival->header.kind == FrameKind::stream) return_credit(from, arrival->header.total);
    forget_arrival(arrival);
  }
}

// ---- messages that came before their receive

Arrival* Endpoint::State::park(Rank from, const FrameHeader& header, std::span<const std::byte> payload) {
  Arrival* arrival = arrivals_.take();
  arrival->peer = from;
  arrival->header = header;
  arrival->tag = {header.context, header.tag};
  arrival->payload.assign(payload.begin(), payload.end());
  unexpected_.insert(arrival);
  return arrival;
}

void Endpoint::State::forget_arrival(Arrival* arrival) {
  if (arrival->header.kind == FrameKind::stream) peer_of(arrival->peer).parked.erase(arrival->header.message);
  unexpected_.remove(arrival);
  arrivals_.give_back(arrival);
}

Operation* Endpoint::State::receive(Rank from, Tag tag, std::span<std::byte> into, std::vector<std::byte>* growing,
                                    const ReceiveOptions& options) {
  CHECK(from == kAnyRank || (from >= 0 && from < facts.size), "a message comes from a rank of the job");
  Operation* operation = operations_.take();
  operation->kind = Operation::Kind::receive;
  operation->peer = from;
  operation->tag = tag;
  operation->into = into;
  operation->growing = growing;
  operation->combine = options.combine;
  operation->fingerprint = options.fingerprint;
  operation->exact = options.exact;
  posted_.insert(operation);
  if (Arrival* arrival = unexpected_.find(from, tag); arrival != nullptr) {
    take_arrival(operation, arrival);
  } else if (from != kAnyRank && peer_of(from).departed) {
    posted_.remove(operation);
    fail(operation, departure(from));
  }
  return operation;
}

void Endpoint::State::take_arrival(Operation* receive, Arrival* arrival) {
  const Rank from = arrival->peer;
  const FrameHeader header = arrival->header;
  const bool accepted = accept(receive, from, header);
  if (header.kind == FrameKind::request) {
    if (accepted) grant(receive, from, header);
  } else if (header.kind == FrameKind::stream) {
    if (accepted) fill(receive, from, header);
    if (accepted && !arrival->payload.empty()) take(receive, arrival->payload);
    if (accepted && receive->ended()) end_incoming(from, receive);
  } else {
    if (accepted) take(receive, arrival->payload);
    if (from != facts.rank) return_credit(from, arrival->payload.size());
  }
  forget_arrival(arrival);
}

void Endpoint::State::return_credit(Rank to, std::size_t payload_bytes) {
  Peer& peer = peer_of(to);
  peer.owed += eager_cost(payload_bytes);
  if (peer.owed < kEagerWindow / 2) return;
  put_control(to, {.kind = FrameKind::credit, .total = peer.owed});
  peer.owed = 0;
}

void Endpoint::State::refuse(Rank to, const FrameHeader& request) {
  if (request.kind == FrameKind::stream) return_credit(to, request.total);
  put_control(to, {.kind = FrameKind::cancel,
                   .context = request.context,
                   .tag = request.tag,
                   .message = request.message,
                   .offset = CancelledBy::receiver});
}

// ---- endings

void Endpoint::State::fail(Operation* operation, const Error& error) {
  operation->error = std::make_unique<Error>(error);
  operation->phase = Operation::Phase::failed;
}

void Endpoint::State::drop(Operation* operation) {
  const bool running =
      operation->phase == Operation::Phase::requested || operation->phase == Operation::Phase::streaming;
  if (operation->kind == Operation::Kind::receive) {
    if (operation->phase == Operation::Phase::queued) posted_.remove(operation);
    if (running) {
      end_incoming(operation->peer, operation);
      refuse(operation->peer,
             {.context = operation->tag.context, .tag = operation->tag.value, .message = operation->message});
    }
  } else if (!operation->ended()) {
    Peer& peer = peer_of(operation->peer);
    std::erase(peer.queued, operation);
    std::erase(peer.granted, operation);
    peer.requested.erase(operation->message);
    if (running) {
      put_control(operation->peer, {.kind = FrameKind::cancel,
                                    .context = operation->tag.context,
                                    .tag = operation->tag.value,
                                    .message = operation->message,
                                    .offset = CancelledBy::sender});
    }
  }
  operations_.give_back(operation);
}

void Endpoint::State::retire(std::uint64_t context) {
  retired_.insert(context);
  for (Arrival* arrival : unexpected_.select([&](const Arrival& a) { return a.tag.context == context; })) {
    if (arrival->header.kind != FrameKind::eager) {
      refuse(arrival->peer, arrival->header);
    } else if (arrival->peer != facts.rank) {
      return_credit(arrival->peer, arrival->payload.size());
    }
    forget_arrival(arrival);
  }
  for (Operation* receive : posted_.select([&](const Operation& o) { return o.tag.context == context; })) {
    posted_.remove(receive);
    fail(receive, Error(Code::cancelled, "the group of this message has been replaced"));
  }
}

void Endpoint::State::break_off(Rank peer) { on_departure(peer, Departure::lost); }

void Endpoint::State::on_departure(Rank rank, Departure how) {
  Peer& peer = peer_of(rank);
  if (peer.departed) return;
  peer.departed = how;
  ++departures;
  const Error error = departure(rank);
  for (Operation* operation : peer.queued) fail(operation, error);
  for (Operation* operation : peer.granted) fail(operation, error);
  for (const auto& entry : peer.requested) fail(entry.second, error);
  for (const auto& entry : peer.incoming) fail(entry.second, error);
  peer.queued.clear();
  peer.granted.clear();
  peer.requested.clear();
  peer.incoming.clear();
  peer.control.clear();
  for (Operation* receive : posted_.select([&](const Operation& o) { return o.peer == rank; })) {
    posted_.remove(receive);
    fail(receive, error);
  }
  const auto unfinished = [&](const Arrival& a) {
    return a.peer == rank && a.header.kind != FrameKind::eager &&
           !(a.header.kind == FrameKind::stream && a.payload.size() == a.header.total);
  };
  for (Arrival* arrival : unexpected_.select(unfinished)) forget_arrival(arrival);
}

}  // namespace paceline
