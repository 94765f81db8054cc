#include "paceline/fabric/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "paceline/core/error.hpp"
#include "paceline/fabric/descriptor.hpp"

namespace paceline {
namespace {

const sockaddr_in& as_ipv4(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& as_ipv6(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

bool is_ipv4_loopback(std::uint32_t host_order) { return host_order >> 24 == 127; }

}  // namespace

Address parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Address address;
  bool good = colon != std::string::npos && colon > 0;
  if (good) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, address.port);
    good = parsed.ec == std::errc() && parsed.ptr == end;
    address.host = text.substr(0, colon);
    if (address.host.front() == '[' && address.host.back() == ']') {
      address.host = address.host.substr(1, address.host.size() - 2);
    }
  }
  if (good && !address.host.empty()) return address;
  throw Error(Code::invalid, fmt::format("'{}' is not an address of the form host:port", text));
}

std::string to_string(const Address& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(ipv6 ? "[{}]:{}" : "{}:{}"), address.host, address.port);
}

SocketAddress resolve(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (status != 0) {
    throw Error(Code::invalid, fmt::format("cannot find the host of {}: {}", to_string(address), gai_strerror(status)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  // Every worker must choose the same of several addresses, also one whose machine lists ::1 but has no IPv6.
  const addrinfo* chosen = found;
  while (chosen != nullptr && chosen->ai_family != AF_INET) chosen = chosen->ai_next;
  if (chosen == nullptr) chosen = found;
  SocketAddress result;
  result.length = chosen->ai_addrlen;
  std::memcpy(&result.storage, chosen->ai_addr, chosen->ai_addrlen);
  return result;
}

bool is_loopback(const SocketAddress& address) {
  if (address.family() == AF_INET) return is_ipv4_loopback(ntohl(as_ipv4(address).sin_addr.s_addr));
  if (address.family() != AF_INET6) return false;
  const in6_addr& ip = as_ipv6(address).sin6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&ip)) return true;
  return IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == 127;
}

std::uint16_t port_of(const SocketAddress& address) {
  return ntohs(address.family() == AF_INET ? as_ipv4(address).sin_port : as_ipv6(address).sin6_port);
}

std::string ip_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const void* raw = address->sa_family == AF_INET
                        ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                        : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return inet_ntop(address->sa_family, raw, text.data(), text.size()) == nullptr ? "" : text.data();
}

SocketAddress own_address(int socket) {
  SocketAddress own;
  own.length = sizeof own.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0)
    throw system_error("cannot tell the address of a socket", errno);
  return own;
}

// The kernel chooses the way when a datagram socket is connected.
std::optional<std::string> ip_towards(const SocketAddress& there) {
  const Descriptor socket(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || connect(socket.number(), there.get(), there.length) != 0) return std::nullopt;
  return ip_text(own_address(socket.number()).get());
}

}  // namespace paceline
