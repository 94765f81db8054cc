#include "paceline/fabric/endpoint_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {
Endpoint::State::State(std::unique_ptr<Transport> t)
    : transport(std::move(t)), facts(transport->facts()), peers_(static_cast<std::size_t>(facts.size)) {
  for (Rank rank = 0; rank < facts.size; ++rank) {
    peer_of(rank).credit = facts.eager_window;
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
