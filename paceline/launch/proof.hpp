// How two sides prove to each other that they know a secret, and how they keep strangers out of their talk afterwards:
// HMAC-SHA256 over both sides' nonces, under a label for each purpose, so that nothing can be reflected or reused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace paceline {

inline constexpr std::size_t kDigestBytes = 32;
inline constexpr std::size_t kNonceBytes = 32;
using Digest = std::string;  // kDigestBytes long

Digest hmac_sha256(std::string_view key, std::string_view message);
// Takes the same time wherever the two differ.
bool same_digest(std::string_view a, std::string_view b);
// From the kernel, fit for secrets.
std::string random_bytes(std::size_t count);
std::string hex(std::string_view bytes);

// What follows from a secret and the two hellos (each with a fresh nonce) of one connection.
struct Proofs {
  Digest client;  // only a client that knows the secret can send this
  Digest server;  // only a server that knows the secret can send this
  Digest frames;  // the key of the frames that follow
};
Proofs derive_proofs(std::string_view secret, std::string_view client_hello, std::string_view server_hello);

enum class Direction : std::uint8_t { to_server = 1, to_client = 2 };
inline constexpr std::size_t kMaxFrameBody = 128 * 1024;

// One direction of an authenticated connection. A frame is: body length (u32), body, HMAC of direction, sequence number
// and body. A frame that is repeated, left out, reordered, changed or sent back to its sender does not open.
class Seal {
 public:
  Seal() = default;
  Seal(Digest key, Direction direction) : key_(std::move(key)), direction_(direction) {}

  std::string close(std::string_view body);

  enum class Status { opened, incomplete, forged };
  struct Opened {
    Status status = Status::incomplete;
    std::string_view body;        // points into the input
    std::size_t frame_bytes = 0;  // of the input that the frame took
  };
  // Looks at the frame at the beginning of `input`.
  Opened open(std::string_view input);

 private:
  Digest tag(std::string_view body) const;

  Digest key_;
  Direction direction_ = Direction::to_server;
  std::uint64_t sequence_ = 0;
};

}  // namespace paceline
