#include "paceline/fabric/hosts/control_meeting.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/fabric/address.hpp"
#include "paceline/fabric/wait_for.hpp"

namespace paceline {
namespace {

constexpr std::array<char, 8> kMagic = {'P', 'A', 'C', 'E', 'C', 'T', 'R', 'L'};
// A visitor who says nothing holds the others up for this long at most.
constexpr Duration kPatience = std::chrono::seconds(1);

// The first thing on a connection, from both sides.
struct Hello {
  std::array<char, 8> magic = kMagic;
  Token token = {};
  std::int32_t rank = kNoRank;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Hello) == 32);

// Where to and from whom bytes go, until something is left of neither.
bool send_all(int socket, const void* data, std::size_t bytes, TimePoint deadline) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, next, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      next += sent;
      bytes -= static_cast<std::size_t>(sent);
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    } else if (!wait_for(socket, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t bytes, TimePoint deadline) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, next, bytes, 0);
    if (got > 0) {
      next += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (!wait_for(socket, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

std::string describe(Rank rank, const Identity& identity) {
  return fmt::format("rank {} (host {}, pid {})", rank, identity.host, identity.pid);
}

Descriptor new_socket(const SocketAddress& address) {
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw system_error("cannot create a socket", errno);
  return socket;
}

// How the connections are made: each rank calls those below it and answers those above.
class Introduction {
 public:
  Introduction(const Control::Options& options, std::uint64_t& strangers) : options_(options), strangers_(strangers) {}

  std::vector<Descriptor> run(const ControlDoor& door) {
    sockets_.resize(options_.addresses.size());
    int missing = 0;
    for (Rank peer = 0; peer < static_cast<Rank>(sockets_.size()); ++peer) {
      if (address_of(peer).empty()) continue;
      if (peer < options_.rank) call(peer);
      if (peer > options_.rank) ++missing;
    }
    while (missing > 0) missing -= answer(door) ? 1 : 0;
    return std::move(sockets_);
  }

 private:
  const std::string& address_of(Rank peer) const { return options_.addresses[static_cast<std::size_t>(peer)]; }
  std::string name_of(Rank peer) const { return describe(peer, options_.identities[static_cast<std::size_t>(peer)]); }

  void call(Rank peer) {
    const SocketAddress address = resolve(parse_address(address_of(peer)));
    Descriptor socket = new_socket(address);
    int error = ::connect(socket.number(), address.get(), address.length) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (!wait_for(socket.number(), POLLOUT, options_.deadline))
        throw Error(Code::timeout, peer,
                    fmt::format("{} does not answer at {}: is that address reachable from here, and its port open?",
                                name_of(peer), address_of(peer)));
      socklen_t length = sizeof error;
      getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error != 0) {
      throw Error(Code::peer_lost, peer,
                  fmt::format("{} cannot be reached at {}: {}", name_of(peer), address_of(peer), strerror(error)));
    }
    if (!say_hello(socket) || !hears(socket, peer, options_.deadline))
      throw Error(Code::refused, peer,
                  fmt::format("{} at {} did not answer as a member of this job", name_of(peer), address_of(peer)));
    sockets_[static_cast<std::size_t>(peer)] = std::move(socket);
  }

  // One visitor; false for a stranger, who is sent away.
  bool answer(const ControlDoor& door) {
    if (!wait_for(door.socket(), POLLIN, options_.deadline)) {
      for (Rank peer = options_.rank + 1; peer < static_cast<Rank>(sockets_.size()); ++peer) {
        if (address_of(peer).empty() || sockets_[static_cast<std::size_t>(peer)].valid()) continue;
        throw Error(Code::timeout, peer,
                    fmt::format("{} did not connect to {} in time: is this address reachable from there?",
                                name_of(peer), door.address()));
      }
    }
    Descriptor socket(accept4(door.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return false;
    const TimePoint patience = std::min(options_.deadline, SteadyClock().after(kPatience));
    const Rank peer = hears_anyone(socket, patience);
    const bool expected = peer > options_.rank && peer < static_cast<Rank>(sockets_.size()) &&
                          !address_of(peer).empty() && !sockets_[static_cast<std::size_t>(peer)].valid();
    if (!expected || !say_hello(socket)) {
      ++strangers_;
      return false;
    }
    sockets_[static_cast<std::size_t>(peer)] = std::move(socket);
    return true;
  }

  bool say_hello(const Descriptor& socket) const {
    const Hello hello{.token = options_.token, .rank = options_.rank};
    return send_all(socket.number(), &hello, sizeof hello, options_.deadline);
  }

  // kNoRank: no member of this job.
  Rank hears_anyone(const Descriptor& socket, TimePoint deadline) const {
    Hello hello;
    if (!receive_all(socket.number(), &hello, sizeof hello, deadline)) return kNoRank;
    return hello.magic == kMagic && hello.token == options_.token ? hello.rank : kNoRank;
  }
  bool hears(const Descriptor& socket, Rank peer, TimePoint deadline) const {
    return hears_anyone(socket, deadline) == peer;
  }

  const Control::Options& options_;
  std::uint64_t& strangers_;
  std::vector<Descriptor> sockets_;
};

}  // namespace

ControlDoor::ControlDoor(const std::string& ip, PortRange ports) {
  int error = EADDRINUSE;
  for (int port = ports.first; port <= ports.last && error == EADDRINUSE; ++port) {
    const SocketAddress wanted = resolve({ip, static_cast<std::uint16_t>(port)});
    socket_ = new_socket(wanted);
    const int on = 1;
    setsockopt(socket_.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    error = bind(socket_.number(), wanted.get(), wanted.length) == 0 ? 0 : errno;
    if (error == 0) error = listen(socket_.number(), SOMAXCONN) == 0 ? 0 : errno;
  }
  if (error != 0) {
    const std::string range = ports.last == 0 ? "" : fmt::format(", ports {} to {}", ports.first, ports.last);
    throw system_error(fmt::format("cannot listen at {}{}", ip, range), error);
  }
  address_ = to_string(Address{ip, port_of(own_address(socket_.number()))});
}

std::vector<Descriptor> meet_peers(const Control::Options& options, const ControlDoor& door, std::uint64_t& strangers) {
  return Introduction(options, strangers).run(door);
}

}  // namespace paceline
