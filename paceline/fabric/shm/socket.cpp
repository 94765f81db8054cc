#include "paceline/fabric/shm/socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "paceline/core/error.hpp"
#include "paceline/fabric/wait_for.hpp"

namespace paceline::shm {
namespace {

constexpr std::size_t kMaxDescriptors = 4;

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;

  explicit Address(const std::string& abstract_name) {
    name.sun_family = AF_UNIX;
    const std::size_t room = sizeof name.sun_path - 1;
    const std::size_t bytes = std::min(abstract_name.size(), room);
    std::memcpy(name.sun_path + 1, abstract_name.data(), bytes);  // a leading zero byte makes it abstract
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
};

Descriptor new_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw system_error("cannot create a socket", errno);
  return socket;
}

void attach(msghdr& message, ControlBuffer& control, std::span<const int> descriptors) {
  if (descriptors.empty()) return;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

std::vector<Descriptor> detach(msghdr& message) {
  std::vector<Descriptor> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(number);
    }
  }
  return descriptors;
}

}  // namespace

void send_packet(int socket, const Packet& packet, std::span<const int> descriptors, TimePoint deadline) {
  Packet copy = packet;
  iovec part{.iov_base = &copy, .iov_len = sizeof copy};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  attach(message, control, descriptors);
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return;
    if (errno != EAGAIN && errno != ETOOMANYREFS) throw system_error("cannot hand memory to a peer", errno);
    if (!wait_for(socket, POLLOUT, deadline))
      throw Error(Code::timeout, "a peer does not take the memory handed to it");
  }
}

Reading receive_packet(int socket, Received& into) {
  iovec part{.iov_base = &into.packet, .iov_len = sizeof into.packet};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t bytes;
  do {
    bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return errno == EAGAIN ? Reading::nothing_yet : Reading::end;
  into.descriptors = detach(message);
  const bool whole = bytes == static_cast<ssize_t>(sizeof into.packet) && (message.msg_flags & MSG_TRUNC) == 0;
  return whole ? Reading::packet : Reading::end;
}

Descriptor connect_to(const std::string& abstract_name) {
  Descriptor socket = new_socket();
  const Address address(abstract_name);
  if (connect(socket.number(), address.get(), address.length) == 0) return socket;
  if (errno == ECONNREFUSED || errno == ENOENT) return Descriptor();
  throw system_error("cannot connect to a peer of this host", errno);
}

Descriptor listen_at(const std::string& abstract_name) {
  Descriptor socket = new_socket();
  const Address address(abstract_name);
  if (bind(socket.number(), address.get(), address.length) != 0) throw system_error("cannot bind a socket", errno);
  if (listen(socket.number(), 4096) != 0) throw system_error("cannot listen on a socket", errno);
  return socket;
}

}  // namespace paceline::shm
