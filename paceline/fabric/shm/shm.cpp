#include "paceline/fabric/shm/shm.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "paceline/fabric/inbox_transport.hpp"
#include "paceline/fabric/shm/handshake.hpp"
#include "paceline/fabric/shm/socket.hpp"

namespace paceline::shm {
namespace {

// Handing a region to a peer waits for room in its socket at most this long: some hundred regions fit.
constexpr Duration kHandOverPatience = std::chrono::seconds(30);

// Arenas of equal size would lie at equal distances, in memory as in addresses, and the same element of all ranks would
// fall into the same cache sets and memory banks: measured, two arenas of 256 MiB then take twice the time of two of
// 260 MiB. So each rank's arenas begin a little further in, by an odd number of lines and pages.
std::size_t color_of(Rank rank) { return static_cast<std::size_t>(rank % 32) * (17 * 4096 + 11 * 64); }

std::vector<InboxPeer> inbox_peers(const ConnectOptions& options, const std::vector<Met>& met) {
  const ChannelShape shape = ChannelShape::for_ranks(static_cast<int>(met.size()));
  std::vector<InboxPeer> peers;
  for (std::size_t rank = 0; rank < met.size(); ++rank) {
    peers.push_back(
        {Inbox(met[rank].inbox->memory().data(), shape), met[rank].doorbell.number(), options.peers[rank].identity});
  }
  return peers;
}

// Of all ranks together: a rank that is bound to one core of four does not share it.
int all_cores(const std::vector<Met>& met) {
  CoreSet all;
  for (const Met& one : met) all |= one.cores;
  return all.count();
}

class ShmTransport final : public InboxTransport {
 public:
  ShmTransport(const ConnectOptions& options, std::vector<Met> met)
      : InboxTransport(options.rank, inbox_peers(options, met), "shm", all_cores(met)),
        met_(std::move(met)),
        offered_(met_.size()) {
    for (std::size_t peer = 0; peer < met_.size(); ++peer) {
      // A peer's end shows on its socket and on its pidfd; the pidfd also when a child of it still holds the socket.
      if (met_[peer].socket.valid()) watch(met_[peer].socket.number(), peer);
      if (met_[peer].pidfd.valid()) watch(met_[peer].pidfd.number(), peer + met_.size());
    }
  }

  SharedRegion allocate(std::size_t bytes) override {
    const std::size_t whole = color_of(facts().rank) + bytes;
    const Descriptor memfd = make_memfd("paceline arena", whole);
    Mapping mapping(memfd, whole);
    const SharedRegion region{++last_id_, mapping.memory().subspan(color_of(facts().rank))};
    own_.emplace(region.id, std::move(mapping));
    const int descriptors[] = {memfd.number()};
    tell_all({.kind = Packet::Kind::region, .id = region.id, .bytes = whole}, descriptors);
    return region;
  }

  void release(std::uint64_t region) override {
    if (own_.erase(region) > 0) tell_all({.kind = Packet::Kind::release, .id = region}, {});
  }

  std::optional<std::span<std::byte>> map(Rank peer, std::uint64_t id) override {
    if (peer == facts().rank) {
      const auto own = own_.find(id);
      return own == own_.end() ? std::nullopt : std::optional(own->second.memory().subspan(color_of(peer)));
    }
    auto& offers = offered_[static_cast<std::size_t>(peer)];
    auto offer = offers.find(id);
    if (offer == offers.end()) {
      // The owner hands a region over before it can tell anybody its number, so the offer has arrived by now.
      read_socket(static_cast<std::size_t>(peer));
      offer = offers.find(id);
    }
    if (offer == offers.end()) return std::nullopt;
    if (offer->second.mapping.memory().empty()) {
      offer->second.mapping = Mapping(offer->second.memfd, offer->second.bytes);
      offer->second.memfd = Descriptor();
    }
    return offer->second.mapping.memory().subspan(color_of(peer));
  }

 private:
  struct Offer {
    Descriptor memfd;  // until it is mapped
    std::size_t bytes = 0;
    Mapping mapping;
  };

  void tell_all(const Packet& packet, std::span<const int> descriptors) {
    const TimePoint deadline = clock().after(kHandOverPatience);
    for (std::size_t peer = 0; peer < met_.size(); ++peer) {
      if (!met_[peer].socket.valid()) continue;
      read_socket(peer);  // so that two ranks that hand over much at a time do not wait for each other
      if (met_[peer].socket.valid()) send_packet(met_[peer].socket.number(), packet, descriptors, deadline);
    }
  }

  void on_ready(std::uint64_t key) override {
    if (key < met_.size()) return read_socket(key);
    const std::size_t peer = key - met_.size();
    read_socket(peer);
    leave(peer);
  }

  void read_socket(std::size_t peer) {
    while (met_[peer].socket.valid()) {
      Received received;
      const Reading reading = receive_packet(met_[peer].socket.number(), received);
      if (reading == Reading::nothing_yet) return;
      if (reading == Reading::end) return leave(peer);
      take(peer, std::move(received));
    }
  }

  void take(std::size_t peer, Received received) {
    const Packet& packet = received.packet;
    const bool room = packet.bytes >= color_of(static_cast<Rank>(peer));
    if (packet.kind == Packet::Kind::region && received.descriptors.size() == 1 && room) {
      offered_[peer].insert_or_assign(packet.id, Offer{std::move(received.descriptors[0]), packet.bytes, {}});
    } else if (packet.kind == Packet::Kind::release) {
      offered_[peer].erase(packet.id);
    }
  }

  void leave(std::size_t peer) {
    Met& met = met_[peer];
    if (met.socket.valid()) unwatch(met.socket.number());
    if (met.pidfd.valid()) unwatch(met.pidfd.number());
    met.socket = Descriptor();
    met.pidfd = Descriptor();
    note_departure(static_cast<Rank>(peer), Departure::lost);
  }

  std::vector<Met> met_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Mapping> own_;
  std::vector<std::map<std::uint64_t, Offer>> offered_;  // by peer, then by region
};

}  // namespace

std::vector<std::unique_ptr<Endpoint>> make_shm_thread_endpoints(int size) {
  const std::size_t inbox_bytes = Inbox::bytes(size, ChannelShape::for_ranks(size));
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::vector<Met>> met(ranks);
  for (auto& row : met) row.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto inbox = std::make_shared<Mapping>(make_memfd("paceline inbox", inbox_bytes), inbox_bytes);
    const Descriptor doorbell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      met[peer][rank].inbox = inbox;
      met[peer][rank].cores = available_cores();
      met[peer][rank].doorbell = Descriptor(fcntl(doorbell.number(), F_DUPFD_CLOEXEC, 0));
      if (peer >= rank) continue;
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        throw system_error("cannot create a pair of sockets", errno);
      }
      met[peer][rank].socket = Descriptor(pair[0]);
      met[rank][peer].socket = Descriptor(pair[1]);
    }
  }
  ConnectOptions options{.peers = std::vector<Peer>(ranks, Peer{"", {"this process", getpid()}})};
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    options.rank = static_cast<Rank>(rank);
    endpoints.push_back(std::make_unique<Endpoint>(std::make_unique<ShmTransport>(options, std::move(met[rank]))));
  }
  return endpoints;
}

std::unique_ptr<InboxTransport> connect_transport(const ConnectOptions& options, Door door) {
  std::vector<Met> met = meet(options, door);
  return std::make_unique<ShmTransport>(options, std::move(met));
}

std::unique_ptr<Endpoint> connect(const ConnectOptions& options, Door door) {
  return std::make_unique<Endpoint>(connect_transport(options, std::move(door)));
}

}  // namespace paceline::shm
