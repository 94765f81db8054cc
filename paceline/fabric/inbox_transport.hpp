// InboxTransport: what the thread and the shm back end have in common, which is everything but where the memory comes
// from and how a peer's death is seen. Frames go through the channels of inboxes; a rank with nothing to do spins
// briefly and then sleeps in epoll on its doorbell and whatever else its back end watches.
//
// Owned by one thread. Peers touch only the Inbox and write to the doorbell's eventfd.
#pragma once

#include <sys/epoll.h>

#include <initializer_list>
#include <span>
#include <vector>

#include "paceline/fabric/descriptor.hpp"
#include "paceline/fabric/inbox.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

// How a peer is reached. The memory and the descriptor belong to the back end.
struct InboxPeer {
  Inbox inbox;
  int doorbell = -1;
  Identity identity;
};

class InboxTransport : public Transport {
 public:
  bool put(Rank to, const FrameHeader& header, const std::byte* payload) override;
  bool poll(TransportSink& sink) override;
  void wait(TimePoint until) override;
  int descriptor() const override { return epoll_.number(); }
  std::optional<TimePoint> arm() override;
  void publish(std::size_t slot, const BoardRecord& record, Wake wake) override;
  std::optional<BoardRecord> read_board(Rank peer, std::size_t slot) const override;
  void close() override;
  const Facts& facts() const override { return facts_; }
  const Identity& identity(Rank peer) const override { return links_[static_cast<std::size_t>(peer)].peer.identity; }
  const Clock& clock() const override { return clock_; }
  Duration clock_offset(Rank /*peer*/) const override { return Duration(0); }
  std::size_t max_payload(Rank /*to*/) const override { return own_.shape().payload; }

  // What else the owner waits for, beside its inbox.
  class Companion {
   public:
    virtual bool busy() const = 0;  // there is something to do
    virtual bool may_sleep() = 0;   // before sleeping on its descriptors: false when there is something to do

   protected:
    ~Companion() = default;
  };
  void accompany(Companion* companion, std::initializer_list<int> descriptors);
  // Shared by all ranks that have inboxes here.
  Line& line() const { return links_.front().peer.inbox.control().line; }

 protected:
  // `peers` by rank; the entry of this rank itself holds its own inbox and doorbell.
  // `cores`: those that any of the ranks may run on, the same number on every rank.
  InboxTransport(Rank rank, std::vector<InboxPeer> peers, std::string backend, int cores);

  // Adds a descriptor whose readiness is reported to on_ready with `key`.
  void watch(int descriptor, std::uint64_t key);
  void unwatch(int descriptor);
  virtual void on_ready(std::uint64_t key) = 0;
  // Called by the back end when it has seen that a peer is gone; poll reports it when the peer's last frame is read.
  void note_departure(Rank peer, Departure how);

 private:
  enum class Presence : std::uint8_t { here, leaving, gone };
  struct Link {
    InboxPeer peer;
    std::uint64_t sent = 0;      // frames put into the peer's inbox
    std::uint64_t room_to = 0;   // frames up to this number fit, as far as we know
    std::uint64_t received = 0;  // frames read from our inbox
    bool refused = false;        // the last put found no room
    Presence presence = Presence::here;
    Departure how = Departure::lost;
  };

  bool has_room(Link& link);
  bool drain(Rank from, Link& link, TransportSink& sink);
  bool report_departures(TransportSink& sink);
  void note_closed_peers();
  void alert_peers() const;
  bool something_to_do() const;
  void ring_if_asleep(const Link& link) const;
  void wait_for_companion(TimePoint until);
  bool sleep(TimePoint until, Duration look = Duration(0));
  int look_at(std::span<epoll_event> events, TimePoint stop) const;
  bool spin(TimePoint stop) const;
  void learn_from_sleep(bool tried, Duration slept);
  bool shares_core_with_lower_rank() const;
  void step_aside() const;

  SteadyClock clock_;
  Facts facts_;
  std::vector<Link> links_;
  Inbox own_;
  Descriptor epoll_;
  int vain_spins_ = 0;  // see Note [Spinning before sleeping]
  int brief_waits_left_ = 0;
  std::uint64_t alerts_seen_ = 0;
  int leaving_ = 0;
  Companion* companion_ = nullptr;
  bool armed_ = false;  // for somebody who sleeps elsewhere
};

}  // namespace paceline
