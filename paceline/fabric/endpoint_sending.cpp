// The half of an Endpoint that sends: which messages go at once, which ask first, and what waits for room.
#include <algorithm>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/fabric/endpoint_state.hpp"

namespace paceline {
namespace {

// Frames of one message that leave between two looks at what has come in: large enough to amortise the look, small
// enough that what two ranks exchange stays in their caches.
constexpr int kBurst = 4;

}  // namespace

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
  const bool several_fit = bytes <= facts.eager_window / 4;
  return peer.other_host && bytes > peer.max_payload && several_fit && peer.credit >= eager_cost(bytes);
}

void Endpoint::State::count_sent(Peer& peer, std::size_t bytes) {
  counters.bytes_sent += bytes;
  peer.sent += bytes;
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

}  // namespace paceline
