// The half of an Endpoint that receives: frames find their receives, or wait for them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/fabric/endpoint_state.hpp"

namespace paceline {

void Endpoint::State::on_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) {
  switch (header.kind) {
    case FrameKind::eager: return on_eager(from, header, payload);
    case FrameKind::request:
    case FrameKind::stream: return on_request(from, header);
    case FrameKind::grant: return on_grant(from, header);
    case FrameKind::data: return on_data(from, header, payload);
    case FrameKind::cancel: return on_cancel(from, header);
    case FrameKind::credit:
      peer_of(from).credit = std::min(facts.eager_window, peer_of(from).credit + header.total);
      return;
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
  if (header.kind == FrameKind::stream && header.total > facts.eager_window) return break_off(from);
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
  if (peer.owed < facts.eager_window / 2) return;
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

}  // namespace paceline
