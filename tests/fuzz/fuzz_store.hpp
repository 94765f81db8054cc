// What the fuzz target and the generator of its seeds agree on: an input is a mode, then pieces, each a length byte
// and so many bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline {

enum class FuzzMode : std::uint8_t {
  stranger,       // pieces are what somebody without the secret sends to a server
  member_bytes,   // after a good handshake, pieces are raw bytes
  member_bodies,  // after a good handshake, pieces are the bodies of good frames, from two clients in turn
  false_server,   // pieces are what somebody without the secret sends to a client
  server_bodies,  // after a good handshake, pieces are the bodies of good frames to a client
  kCount,
};

inline std::string fuzz_piece(std::string_view bytes) { return static_cast<char>(bytes.size()) + std::string(bytes); }

}  // namespace paceline
