#include "paceline/fabric/shm/handshake.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "paceline/fabric/inbox.hpp"
#include "paceline/fabric/shm/socket.hpp"
#include "paceline/fabric/wait_for.hpp"

namespace paceline::shm {
namespace {

std::string random_name() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    throw system_error("cannot draw random bytes", errno);
  }
  std::string name = "paceline-";
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

class Meeting {
 public:
  explicit Meeting(const ConnectOptions& options)
      : options_(options),
        ranks_(static_cast<int>(options.peers.size())),
        inbox_bytes_(Inbox::bytes(ranks_, ChannelShape::for_ranks(ranks_))),
        inbox_(make_memfd("paceline inbox", inbox_bytes_)),
        met_(options.peers.size()) {
    if (options.token.size() > kTokenBytes) throw Error(Code::invalid, "the job's token is longer than 64 bytes");
    Met& self = met_[static_cast<std::size_t>(options.rank)];
    self.inbox = std::make_shared<Mapping>(inbox_, inbox_bytes_);
    self.doorbell = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!self.doorbell.valid()) throw system_error("cannot create an eventfd", errno);
    self.cores = available_cores();
  }

  std::vector<Met> run(const Door& door) {
    for (Rank peer = 0; peer < options_.rank; ++peer) call(peer);
    int missing = ranks_ - 1 - options_.rank;
    while (missing > 0) missing -= answer(door) ? 1 : 0;
    return std::move(met_);
  }

 private:
  void call(Rank peer) {
    Descriptor socket = connect_to(options_.peers[static_cast<std::size_t>(peer)].door);
    if (!socket.valid()) {
      throw Error(Code::peer_lost, peer,
                  describe(peer) + " cannot be reached through shared memory: it has ended, or is on another host");
    }
    say_hello(socket);
    if (!wait_for(socket.number(), POLLIN, options_.deadline))
      throw Error(Code::timeout, peer, describe(peer) + " does not answer");
    if (!admit(std::move(socket), peer))
      throw Error(Code::refused, peer, describe(peer) + " does not belong to this job");
  }

  // One visitor at the door; false for a stranger, who is sent away.
  bool answer(const Door& door) {
    if (!wait_for(door.socket(), POLLIN, options_.deadline)) throw Error(Code::timeout, absent().front(), absence());
    Descriptor socket(accept4(door.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return false;
    // A visitor who knows the random name but says nothing holds the others up for a second at most.
    const TimePoint patience = std::min(options_.deadline, SteadyClock().after(std::chrono::seconds(1)));
    if (!wait_for(socket.number(), POLLIN, patience)) return false;
    const int number = socket.number();
    if (!admit(std::move(socket), kAnyRank)) return false;
    const auto same = [&](const Met& met) { return met.socket.number() == number; };
    say_hello(std::find_if(met_.begin(), met_.end(), same)->socket);
    return true;
  }

  void say_hello(const Descriptor& socket) {
    Packet packet{.kind = Packet::Kind::hello, .rank = options_.rank, .bytes = inbox_bytes_};
    std::copy(options_.token.begin(), options_.token.end(), packet.token.begin());
    const Met& self = met_[static_cast<std::size_t>(options_.rank)];
    packet.cores = self.cores;
    const int descriptors[] = {inbox_.number(), self.doorbell.number()};
    send_packet(socket.number(), packet, descriptors, options_.deadline);
  }

  bool admit(Descriptor socket, Rank expected) {
    Received hello;
    if (receive_packet(socket.number(), hello) != Reading::packet || hello.descriptors.size() != 2) return false;
    const Packet& packet = hello.packet;
    std::array<char, kTokenBytes> token{};
    std::copy(options_.token.begin(), options_.token.end(), token.begin());
    const bool ours = packet.kind == Packet::Kind::hello && packet.token == token && packet.bytes == inbox_bytes_;
    const bool known = packet.rank >= 0 && packet.rank < ranks_ && packet.rank != options_.rank &&
                       (expected == kAnyRank || packet.rank == expected);
    if (!ours || !known || met_[static_cast<std::size_t>(packet.rank)].socket.valid()) return false;
    Met& met = met_[static_cast<std::size_t>(packet.rank)];
    met.inbox = std::make_shared<Mapping>(hello.descriptors[0], inbox_bytes_);
    met.doorbell = std::move(hello.descriptors[1]);
    met.pidfd = pidfd_of(socket);
    met.cores = packet.cores;
    met.socket = std::move(socket);
    return true;
  }

  // The kernel's word for who is at the other end, not the peer's own. None for a thread of this very process.
  static Descriptor pidfd_of(const Descriptor& socket) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    const bool known = getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0;
    if (!known || credentials.pid <= 0 || credentials.pid == getpid()) return Descriptor();
    return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, credentials.pid, 0)));
  }

  std::vector<Rank> absent() const {
    std::vector<Rank> ranks;
    for (Rank peer = options_.rank + 1; peer < ranks_; ++peer) {
      if (!met_[static_cast<std::size_t>(peer)].socket.valid()) ranks.push_back(peer);
    }
    return ranks;
  }

  std::string absence() const {
    std::string names;
    for (const Rank rank : absent()) names += (names.empty() ? "" : ", ") + describe(rank);
    return names + " did not connect in time";
  }

  std::string describe(Rank peer) const {
    const Identity& identity = options_.peers[static_cast<std::size_t>(peer)].identity;
    return fmt::format("rank {} (host {}, pid {})", peer, identity.host, identity.pid);
  }

  const ConnectOptions& options_;
  const int ranks_;
  const std::size_t inbox_bytes_;
  Descriptor inbox_;
  std::vector<Met> met_;
};

}  // namespace

Door::Door() : name_(random_name()), socket_(listen_at(name_)) {}

std::vector<Met> meet(const ConnectOptions& options, const Door& door) { return Meeting(options).run(door); }

}  // namespace paceline::shm
