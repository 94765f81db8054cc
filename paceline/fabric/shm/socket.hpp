// Packets with file descriptors over abstract SOCK_SEQPACKET sockets: how ranks of one host hand each other memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/cores.hpp"
#include "paceline/fabric/descriptor.hpp"

namespace paceline::shm {

inline constexpr std::size_t kTokenBytes = 64;

// Every packet on such a socket has this one form.
struct Packet {
  enum class Kind : std::uint32_t { hello = 1, region, release };
  Kind kind = Kind::hello;
  std::int32_t rank = -1;                 // hello
  std::uint64_t id = 0;                   // region, release
  std::uint64_t bytes = 0;                // hello: of the inbox; region
  std::array<char, kTokenBytes> token{};  // hello
  CoreSet cores{};                        // hello: where its rank may run
};

struct Received {
  Packet packet;
  std::vector<Descriptor> descriptors;
};

// Throws Error{system}; a peer that is gone counts as sent, its departure is seen elsewhere.
void send_packet(int socket, const Packet& packet, std::span<const int> descriptors, TimePoint deadline);

enum class Reading { nothing_yet, end, packet };
// Never blocks. `end`: the peer has closed its side, or sent something that is no Packet.
Reading receive_packet(int socket, Received& into);

Descriptor connect_to(const std::string& abstract_name);  // invalid if nobody listens there
Descriptor listen_at(const std::string& abstract_name);

}  // namespace paceline::shm
