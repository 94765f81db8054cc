// The inside of an Endpoint: turns sends and receives into frames and frames into completed operations.
//
// How a message travels. A message of at most one frame goes `eager`, with its payload, as long as the receiver has
// granted credit for it. Between hosts, where an answer takes long, a message of a few frames within the credit goes as
// a `stream`: its `data` frames follow without an answer, and are parked if no receive has asked for them yet. Any
// other is announced by a `request`; when a receive matches it, the receiver answers with a `grant`, and the payload
// follows in `data` frames straight into (or combined with) the receive buffer. So the memory taken by messages nobody
// asked for is bounded by the credit per pair, and large payloads are never parked. First frames (eager, stream,
// request) leave in the order of the sends, which is what keeps messages of one tag in order.
//
// Nothing that a frame says is believed before it is checked; a peer that breaks the protocol is treated as lost.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/matching.hpp"

namespace paceline {

// An eager message also occupies a frame's header at the receiver.
inline std::uint64_t eager_cost(std::size_t payload_bytes) { return payload_bytes + sizeof(FrameHeader); }

// In the offset of a `cancel` frame.
enum CancelledBy : std::uint64_t { sender = 0, receiver = 1 };

class Endpoint::State final : public TransportSink {
 public:
  explicit State(std::unique_ptr<Transport> transport);

  Operation* send(Rank to, Tag tag, std::span<const std::byte> bytes, std::uint64_t fingerprint);
  Operation* receive(Rank from, Tag tag, std::span<std::byte> into, std::vector<std::byte>* growing,
                     const ReceiveOptions& options);
  // The handle is gone: takes an operation back in whatever phase it is.
  void drop(Operation* operation);
  bool progress();
  void retire(std::uint64_t context);
  Error departure(Rank peer) const;
  std::string describe(Rank peer) const;

  void on_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) override;
  void on_departure(Rank peer, Departure how) override;
  void on_alert() override { ++alerts; }

  const std::unique_ptr<Transport> transport;
  const Transport::Facts facts;
  TrafficCounters counters;
  std::shared_ptr<void> attachment;
  std::uint64_t alerts = 0;
  std::uint64_t departures = 0;
  std::vector<SharedRegion> arenas;
  bool closed = false;

  std::uint64_t sent_to(Rank peer) const { return peers_[static_cast<std::size_t>(peer)].sent; }
  bool gone(Rank peer) const { return peers_[static_cast<std::size_t>(peer)].departed.has_value(); }
  bool lost(Rank peer) const {
    return peers_[static_cast<std::size_t>(peer)].departed.value_or(Departure::closed) != Departure::closed;
  }
  bool unreachable(Rank peer) const {
    return peers_[static_cast<std::size_t>(peer)].departed == Departure::unreachable;
  }

 private:
  struct Peer {
    std::deque<FrameHeader> control;                          // small frames that found no room
    std::deque<Operation*> queued;                            // sends not announced yet, in order
    std::deque<Operation*> granted;                           // sends whose payload may go
    std::unordered_map<std::uint64_t, Operation*> requested;  // sends that wait for a grant, by message number
    std::unordered_map<std::uint64_t, Operation*> incoming;   // receives being filled, by the sender's number
    std::unordered_map<std::uint64_t, Arrival*> parked;       // streams that no receive has asked for, by the same
    bool other_host = false;
    std::size_t max_payload = 0;  // of a frame to it
    std::uint64_t credit = 0;     // bytes of eager messages that we may still send
    std::uint64_t owed = 0;       // bytes consumed and not yet credited back
    std::uint64_t sent = 0;       // bytes of payload, in all
    std::optional<Departure> departed;
    bool listed = false;  // in backlogs_

    bool has_backlog() const { return !control.empty() || !queued.empty() || !granted.empty(); }
  };

  Peer& peer_of(Rank rank) { return peers_[static_cast<std::size_t>(rank)]; }

  // Outgoing.
  bool may_be_eager(const Peer& peer, std::size_t bytes) const;
  bool may_stream(const Peer& peer, std::size_t bytes) const;
  bool put_eager(Rank to, Peer& peer, const Tag& tag, std::span<const std::byte> bytes, std::uint64_t fingerprint);
  void count_sent(Peer& peer, std::size_t bytes);
  bool announce(Rank to, Peer& peer, Operation* operation);
  bool stream(Rank to, Operation* operation);
  bool flush(Rank to, Peer& peer);
  void note_backlog(Rank to, Peer& peer);
  void put_control(Rank to, const FrameHeader& header);
  void send_to_self(Operation* operation);

  // Incoming.
  void on_eager(Rank from, const FrameHeader& header, std::span<const std::byte> payload);
  void on_request(Rank from, const FrameHeader& header);
  void on_grant(Rank from, const FrameHeader& header);
  void on_data(Rank from, const FrameHeader& header, std::span<const std::byte> payload);
  void on_parked_data(Rank from, const FrameHeader& header, std::span<const std::byte> payload);
  void on_cancel(Rank from, const FrameHeader& header);
  Arrival* park(Rank from, const FrameHeader& header, std::span<const std::byte> payload);
  void take_arrival(Operation* receive, Arrival* arrival);
  bool accept(Operation* receive, Rank from, const FrameHeader& header);
  void grant(Operation* receive, Rank from, const FrameHeader& header);
  void fill(Operation* receive, Rank from, const FrameHeader& header);
  void note_incoming(Rank from, Operation* receive);
  void end_incoming(Rank from, Operation* receive);
  void take(Operation* receive, std::span<const std::byte> payload);
  void return_credit(Rank to, std::size_t payload_bytes);
  void refuse(Rank to, const FrameHeader& request);
  void break_off(Rank peer);

  void fail(Operation* operation, const Error& error);
  void forget_arrival(Arrival* arrival);

  std::vector<Peer> peers_;
  std::vector<Rank> backlogs_;  // the peers that may have one: a job can have many peers and talk to few
  Pool<Operation> operations_;
  Pool<Arrival> arrivals_;
  MatchTable<Operation> posted_;
  MatchTable<Arrival> unexpected_;
  std::unordered_set<std::uint64_t> retired_;
  std::uint64_t last_message_ = 0;
};

}  // namespace paceline
