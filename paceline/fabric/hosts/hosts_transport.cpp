#include "paceline/fabric/hosts/hosts_transport.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "paceline/fabric/hosts/shaped_wire.hpp"
#include "paceline/fabric/inbox_transport.hpp"

namespace paceline {
namespace {

// A link that has failed while its peer still answers on the other connection: how long we wait for word of its end.
constexpr Duration kWordOfItsEnd = std::chrono::seconds(2);

std::vector<Rank> ranks_beside(const HostsOptions& options) {
  std::vector<Rank> beside;
  const int host = options.peers[static_cast<std::size_t>(options.rank)].host;
  for (Rank rank = 0; rank < static_cast<Rank>(options.peers.size()); ++rank) {
    if (options.peers[static_cast<std::size_t>(rank)].host == host) beside.push_back(rank);
  }
  return beside;
}

// From the peers' cards alone, so that it is the same number on every rank: choices are made by it.
int cores_of_smallest_host(const std::vector<HostsPeer>& peers) {
  std::map<int, int> cores;  // by host
  for (const HostsPeer& peer : peers) cores[peer.host] = std::max(cores[peer.host], peer.cores);
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(cores.begin(), cores.end(), fewer)->second;
}

std::unique_ptr<InboxTransport> connect_beside(const HostsOptions& options, const std::vector<Rank>& beside,
                                               shm::Door door) {
  shm::ConnectOptions how{.token = options.token, .deadline = options.deadline};
  for (const Rank rank : beside) {
    const HostsPeer& peer = options.peers[static_cast<std::size_t>(rank)];
    if (rank == options.rank) how.rank = static_cast<Rank>(how.peers.size());
    how.peers.push_back({peer.door, peer.identity});
  }
  return shm::connect_transport(how, std::move(door));
}

// Before the control connections: nobody leaves before all have made these, so that everybody is there to be connected
// to.
std::unique_ptr<Wire> connect_wire(const HostsOptions& options, const std::vector<Rank>& beside,
                                   std::unique_ptr<Wire> wire) {
  Wire::ConnectOptions how{.rank = options.rank, .token = options.wire_token};
  for (const HostsPeer& peer : options.peers) how.addresses.push_back(peer.wire);
  for (const Rank rank : beside) how.addresses[static_cast<std::size_t>(rank)].clear();
  wire->connect(how);
  return wire;
}

class HostsTransport final : public Transport, private WireSink, private InboxTransport::Companion {
 public:
  HostsTransport(const HostsOptions& options, Doors doors)
      : options_(options),
        beside_(ranks_beside(options)),
        links_(options.peers.size()),
        inboxes_(connect_beside(options, beside_, std::move(doors.door))),
        wire_(shaped(connect_wire(options, beside_, std::move(doors.wire)))),
        control_(std::move(doors.control), control_options()) {
    for (std::size_t i = 0; i < beside_.size(); ++i)
      links_[static_cast<std::size_t>(beside_[i])].beside = static_cast<int>(i);
    facts_ = inboxes_->facts();
    facts_.rank = options.rank;
    facts_.size = static_cast<int>(links_.size());
    facts_.backend = "hosts";
    facts_.network = wire_->describe();
    facts_.cores = cores_of_smallest_host(options.peers);
    facts_.hosts.clear();
    for (const HostsPeer& peer : options.peers) facts_.hosts.push_back(peer.host);
    inboxes_->accompany(this, {wire_->descriptor(), control_.descriptor()});
  }

  bool put(Rank to, const FrameHeader& header, const std::byte* payload) override {
    Link& link = link_of(to);
    if (link.beside >= 0) return inboxes_->put(link.beside, header, payload);
    if (link.gone) return true;
    if (!wire_->put(to, header, payload)) return false;
    ++link.sent;
    return true;
  }

  bool poll(TransportSink& sink) override {
    sink_ = &sink;
    Translation translation{*this, sink};
    bool any = inboxes_->poll(translation);
    any |= wire_->progress(*this);
    if (const auto news = control_.collect()) {
      any = true;
      take(*news);
    }
    if (parting_ > 0) any |= part();
    sink_ = nullptr;
    return any;
  }

  void wait(TimePoint until) override { inboxes_->wait(std::min(until, next_look())); }

  int descriptor() const override { return inboxes_->descriptor(); }
  std::optional<TimePoint> arm() override {
    const auto until = inboxes_->arm();
    return until ? std::optional(std::min(*until, next_look())) : std::nullopt;
  }

  void publish(std::size_t slot, const BoardRecord& record, Wake wake) override {
    inboxes_->publish(slot, record, wake);
    if (wake == Wake::yes) control_.push_board();
  }
  std::optional<BoardRecord> read_board(Rank peer, std::size_t slot) const override {
    const int beside = link_of(peer).beside;
    return beside >= 0 ? inboxes_->read_board(beside, slot) : control_.read_board(peer, slot);
  }

  SharedRegion allocate(std::size_t bytes) override { return inboxes_->allocate(bytes); }
  void release(std::uint64_t region) override { inboxes_->release(region); }
  std::optional<std::span<std::byte>> map(Rank peer, std::uint64_t region) override {
    const int beside = link_of(peer).beside;
    return beside >= 0 ? inboxes_->map(beside, region) : std::nullopt;
  }

  void close() override;

  const Facts& facts() const override { return facts_; }
  std::size_t max_payload(Rank to) const override {
    const int beside = link_of(to).beside;
    return beside >= 0 ? inboxes_->max_payload(beside) : wire_->max_payload();
  }
  const Identity& identity(Rank peer) const override { return options_.peers[static_cast<std::size_t>(peer)].identity; }
  const Clock& clock() const override { return inboxes_->clock(); }
  Duration clock_offset(Rank peer) const override {
    return has_our_clock(peer) ? Duration(0) : control_.clock_offset(peer);
  }

 private:
  struct Link {
    int beside = -1;  // its number among the ranks of this host; -1: it is on another
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::optional<std::uint64_t> leaves_after;  // it has taken leave, having sent so many frames
    std::optional<TimePoint> failed;            // when its wire did
    std::optional<Departure> lost;
    bool gone = false;  // reported
    bool parting() const { return !gone && (leaves_after || failed || lost); }
  };

  // What the inboxes say, in the ranks of the job.
  struct Translation final : TransportSink {
    Translation(HostsTransport& transport, TransportSink& sink) : all(transport), out(sink) {}
    void on_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) override {
      out.on_frame(all.beside_[static_cast<std::size_t>(from)], header, payload);
    }
    void on_departure(Rank peer, Departure how) override {
      out.on_departure(all.beside_[static_cast<std::size_t>(peer)], how);
    }
    void on_alert() override { out.on_alert(); }
    HostsTransport& all;
    TransportSink& out;
  };

  bool has_our_clock(Rank peer) const {
    const std::string& own = options_.peers[static_cast<std::size_t>(options_.rank)].clock;
    return link_of(peer).beside >= 0 || (!own.empty() && options_.peers[static_cast<std::size_t>(peer)].clock == own);
  }

  Link& link_of(Rank rank) { return links_[static_cast<std::size_t>(rank)]; }
  const Link& link_of(Rank rank) const { return links_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Wire> shaped(std::unique_ptr<Wire> wire) const {
    if (!options_.link.shapes()) return wire;
    return shape_wire(std::move(wire), static_cast<int>(options_.peers.size()),
                      {.shape = options_.link,
                       .line = &inboxes_->line(),
                       .clock = &inboxes_->clock(),
                       .clock_offset_of = [this](Rank peer) { return clock_offset(peer); }});
  }

  Control::Options control_options() const {
    Control::Options how{.rank = options_.rank,
                         .token = options_.wire_token,
                         .deadline = options_.deadline,
                         .silence = options_.silence,
                         .own_board = [inboxes = inboxes_.get()](std::size_t slot) {
                           return inboxes->read_board(inboxes->facts().rank, slot);
                         }};
    for (Rank rank = 0; rank < static_cast<Rank>(options_.peers.size()); ++rank) {
      const bool near = std::find(beside_.begin(), beside_.end(), rank) != beside_.end();
      how.addresses.push_back(near ? "" : options_.peers[static_cast<std::size_t>(rank)].control);
      how.identities.push_back(options_.peers[static_cast<std::size_t>(rank)].identity);
    }
    return how;
  }

  void on_wire_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) override {
    Link& link = link_of(from);
    if (link.gone) return;
    control_.count_frames(from, ++link.received);
    if (sink_ != nullptr) sink_->on_frame(from, header, payload);
  }

  void on_wire_failure(Rank peer) override {
    note(peer, [this](Link& link) { link.failed = clock().now(); });
  }

  template <class Change>
  void note(Rank peer, Change change) {
    Link& link = link_of(peer);
    const bool before = link.parting();
    change(link);
    if (!before && link.parting()) ++parting_;
  }

  void take(const Control::News& news) {
    for (const auto& [peer, frames] : news.leaving) {
      note(peer, [frames = frames](Link& link) { link.leaves_after = frames; });
    }
    for (const auto& [peer, how] : news.lost) {
      note(peer, [how = how](Link& link) { link.lost = how; });
    }
    if (news.alert && sink_ != nullptr) sink_->on_alert();
  }

  // Reports the peers that have left, each after its last frame.
  bool part() {
    bool any = false;
    for (Rank peer = 0; peer < facts_.size; ++peer) {
      Link& link = link_of(peer);
      if (!link.parting()) continue;
      const bool complete = link.leaves_after && link.received >= *link.leaves_after;
      const bool in_vain = link.lost || (link.failed && clock().now() - *link.failed >= kWordOfItsEnd);
      if (!complete && !in_vain) continue;
      if (!complete) {
        while (wire_->progress(*this)) {
        }
      }
      link.gone = true;
      --parting_;
      any = true;
      sink_->on_departure(peer, complete ? Departure::closed : link.lost.value_or(Departure::lost));
    }
    return any;
  }

  // When there may be something to do though nothing has come.
  TimePoint next_look() const {
    return parting_ > 0 ? std::min(wire_->due(), clock().after(std::chrono::milliseconds(50))) : wire_->due();
  }

  // InboxTransport::Companion
  bool busy() const override { return control_.has_news(); }
  bool may_sleep() override { return wire_->arm(); }

  const HostsOptions options_;
  const std::vector<Rank> beside_;  // ranks of this host, ascending
  std::vector<Link> links_;
  const std::unique_ptr<InboxTransport> inboxes_;
  const std::unique_ptr<Wire> wire_;
  mutable Control control_;
  Facts facts_;
  int parting_ = 0;
  TransportSink* sink_ = nullptr;  // inside poll
};

// What was sent before must arrive: the others' processes may still compute, and what the network has of ours would be
// lost with this process.
void HostsTransport::close() {
  inboxes_->close();
  std::vector<std::uint64_t> sent;
  for (const Link& link : links_) sent.push_back(link.sent);
  control_.take_leave(sent);
  const TimePoint deadline = clock().after(options_.linger);
  while (!(control_.leave_taken() && wire_->flushed()) && clock().now() < deadline) {
    wire_->progress(*this);
    (void)control_.collect();
    if (!control_.leave_taken()) inboxes_->wait(std::min(deadline, clock().after(std::chrono::milliseconds(1))));
  }
}

}  // namespace

std::unique_ptr<Endpoint> connect_hosts(const HostsOptions& options, Doors doors) {
  return std::make_unique<Endpoint>(std::make_unique<HostsTransport>(options, std::move(doors)));
}

}  // namespace paceline
