// Where a store is: "127.0.0.1:4711", "node7:4711", "[::1]:4711".
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace paceline {

struct Address {
  std::string host;
  std::uint16_t port = 0;
};
// Throws Error{invalid}: `text` is not of the form host:port.
Address parse_address(const std::string& text);
std::string to_string(const Address& address);

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};
// Asks the resolver. Throws Error{invalid}: there is no such host.
SocketAddress resolve(const Address& address);
// Reached from this machine only.
bool is_loopback(const SocketAddress& address);
std::uint16_t port_of(const SocketAddress& address);
// "10.0.0.1", of an IPv4 or IPv6 address.
std::string ip_text(const sockaddr* address);
// This side's address of a socket. Throws Error{system}.
SocketAddress own_address(int socket);
// The address of this host from which it would send to `there`; nothing is sent. nullopt: there is no way.
std::optional<std::string> ip_towards(const SocketAddress& there);

}  // namespace paceline
