// Network: the links between the ranks and what is under way on them.
//
// Below, transmissions are delayed, lost and sent again, or carried twice, so that frames of one link overtake each
// other. Above, a small reliable layer with sequence numbers drops what came twice and restores the order of each pair.
// A rank's end is a frame like any other, so that it cannot overtake what was sent before it; a cut or a crashed host
// loses what has not arrived.
//
// Note [Ports]
// With `port_bytes_per_second` a frame first waits for its sender's port. Its first byte reaches the receiver's port
// one flight later, and waits there for what came before it, whoever sent that; the frame has arrived when its last
// byte is through. Two ports that are free cost a frame its time once, not twice. The queue at the receiver has no
// bound of its own: a link's capacity bounds what each sender can have there. A frame's place in the outgoing queue is
// decided when it is put, its place in the incoming one in the order of arrival.
//
// Used by the holder of the baton only (see Scheduler). `now` is always the time of the rank that acts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <vector>

#include "paceline/core/random.hpp"
#include "paceline/fabric/sim/options.hpp"
#include "paceline/fabric/sim/scheduler.hpp"
#include "paceline/fabric/sim/trace.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

struct SimCounters {
  std::uint64_t frames = 0;              // accepted by put
  std::uint64_t payload_bytes = 0;       // of these
  std::uint64_t refused = 0;             // puts that found no room
  std::uint64_t delivered = 0;           // frames handed over by poll
  std::uint64_t transmissions_lost = 0;  // and sent again
  std::uint64_t duplicates_dropped = 0;
  std::uint64_t held = 0;      // frames that came before their predecessors
  std::uint64_t vanished = 0;  // frames that a cut or a crash swallowed
  std::uint64_t dropped = 0;   // frames put to a peer that is gone
  std::uint64_t departures = 0;
  std::uint64_t alerts = 0;
  std::uint64_t calls = 0;     // of Transports
  std::uint64_t switches = 0;  // of the baton from thread to thread
};

namespace sim {

// What poll hands over: a frame, or the departure that ends its link.
struct Arrival {
  Rank from = kNoRank;
  std::uint64_t sequence = 0;
  FrameHeader header;
  std::vector<std::byte> payload;
  std::optional<Departure> departure;
};

class Network final : public EventSource {
 public:
  Network(const SimOptions& options, Trace& trace, SimCounters& counters);
  // Whoever must know when something will reach a rank.
  void announce_to(Scheduler& scheduler) { scheduler_ = &scheduler; }
  // The cuts of the options are on their way from the start.
  void schedule_cuts();

  bool put(Rank from, Rank to, const FrameHeader& header, const std::byte* payload, TimePoint now);
  void close(Rank rank, TimePoint now);
  // With its host, nothing of the rank arrives after `crash`.
  void die(Rank rank, TimePoint now, Faults::Kill how, TimePoint crash);
  // Sends a board's record on its way: when it arrives, kNever if it does not.
  TimePoint propagate(Rank from, Rank to, Wake wake, TimePoint now);

  // What has arrived for a rank; advance() first. The one who takes a frame gives its room back.
  std::size_t arrived(Rank rank) const { return inbox(rank).arrived.size(); }
  Arrival take(Rank rank, TimePoint now);
  // Whether there was one since the last call.
  bool take_alert(Rank rank, TimePoint now);
  bool take_room(Rank rank);
  bool knows_gone(Rank rank, Rank peer) const { return link(peer, rank).ended; }

  // The least time in which anything reaches another rank.
  Duration lookahead() const { return lookahead_; }

  TimePoint next_event(Rank rank) const override { return next_[static_cast<std::size_t>(rank)]; }
  bool advance(Rank rank, TimePoint now) override;

 private:
  struct Frame {
    FrameHeader header;
    std::vector<std::byte> payload;
    std::optional<Departure> departure;
    bool has_arrived = false;
  };
  struct Link {
    SimLink shape;
    Random random{0};
    TimePoint busy_until = kSimStart;   // the sender's side is still transmitting
    TimePoint cut = kNever;             // nothing arrives after this
    TimePoint last_record = kSimStart;  // arrival of the last board record: they keep their order
    std::deque<Frame> frames;           // sent, not yet arrived in order
    std::uint64_t first_sequence = 0;   // of frames.front()
    std::size_t frames_under_way = 0;   // put, and their room not yet given back
    std::size_t bytes_under_way = 0;
    bool refused = false;  // a put found no room, and none has come free since
    bool ended = false;    // the receiver has been told that the sender is gone
  };
  enum class EventKind : std::uint8_t { at_port, frame, cut, room, alert };
  struct Event {
    TimePoint time;
    std::uint64_t tie = 0;
    EventKind kind = EventKind::frame;
    Rank peer = kNoRank;
    std::uint64_t number = 0;                   // sequence of a frame, payload bytes of room
    bool operator<(const Event& other) const {  // std::priority_queue wants the first event to be the greatest
      return time != other.time ? time > other.time : tie > other.tie;
    }
  };
  struct Inbox {
    std::priority_queue<Event> events;
    std::deque<Arrival> arrived;
    TimePoint seen = kSimStart;      // what arrives up to here has been applied
    TimePoint port_out = kSimStart;  // busy until then
    TimePoint port_in = kSimStart;
    bool alert = false;
    bool room = false;
  };

  Link& link(Rank from, Rank to) { return links_[index(from, to)]; }
  const Link& link(Rank from, Rank to) const { return links_[index(from, to)]; }
  std::size_t index(Rank from, Rank to) const;
  Inbox& inbox(Rank rank) { return inboxes_[static_cast<std::size_t>(rank)]; }
  const Inbox& inbox(Rank rank) const { return inboxes_[static_cast<std::size_t>(rank)]; }

  Duration least_latency() const;
  void cut(Rank a, Rank b, TimePoint when);
  void check_causality(Rank to, TimePoint when) const;
  Duration flight(Link& link);
  Duration detection(Link& link);
  void transmit(Rank from, Rank to, Frame frame, TimePoint not_before, TimePoint now);
  bool through_ports(Rank from, Rank to) const { return from != to && options_.port_bytes_per_second > 0; }
  void push(Rank to, EventKind kind, Rank peer, std::uint64_t number, TimePoint when);
  void enqueue(Rank to, EventKind kind, Rank peer, std::uint64_t number, TimePoint when);
  void apply(Rank rank, const Event& event);
  void pass_port(Rank rank, const Event& event);
  void receive(Rank rank, const Event& event);
  void release_in_order(Rank rank, Rank from);
  void end(Rank rank, Rank peer, Departure how);
  void note(TimePoint time, SimEvent event, Rank rank, Rank peer, std::uint64_t number, const FrameHeader& header = {});

  const SimOptions& options_;
  Trace& trace_;
  SimCounters& counters_;
  Scheduler* scheduler_ = nullptr;
  std::vector<Link> links_;  // by sender, then receiver
  std::vector<Inbox> inboxes_;
  std::vector<TimePoint> next_;  // of each inbox's first event; beside each other, because the scheduler looks at all
  Duration lookahead_{0};
  std::uint64_t events_ = 0;
};

}  // namespace sim
}  // namespace paceline
