// The words of the rendezvous store's protocol, as values and as bytes. README.md gives the wire format byte by byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

// Both sides of a connection, and all workers of a job, have the same two versions.
struct Versions {
  std::uint16_t protocol = 0;
  std::string build;  // 1 to kMaxBuildBytes bytes

  bool operator==(const Versions&) const = default;
};
Versions this_build();
// "paceline 0.1.0 (protocol 1)"; bytes that are not printable show as '?'.
std::string describe(const Versions& versions);

// What one side of a connection brings: what it knows and what it is.
struct Terms {
  std::string secret;  // empty: none
  Versions versions = this_build();
};

inline constexpr std::string_view kMagic = "PACELINE";
inline constexpr std::size_t kMaxBuildBytes = 64;
inline constexpr std::size_t kMaxKeyBytes = 256;
inline constexpr std::size_t kMaxValueBytes = 64 * 1024;

// The first thing that each side sends, the same for all versions of the protocol.
struct Hello {
  Versions versions;
  std::string nonce;
  std::size_t bytes = 0;  // of the input that it took
};
enum class HelloStatus { complete, incomplete, foreign };
std::string encode_hello(const Versions& versions, std::string_view nonce);
HelloStatus decode_hello(std::string_view input, Hello& hello);

enum class ProofVerdict : std::uint8_t { accepted = 1, refused = 2 };

enum class Ask : std::uint8_t {
  set = 1,    // key becomes value, whatever it was before
  claim = 2,  // key becomes value if it has none
  get = 3,    // waits until key has a value
};
struct StoreRequest {
  Ask ask = Ask::get;
  std::uint32_t id = 0;  // chosen by the client; the reply carries it
  std::string key;
  std::string value;
};

enum class Answer : std::uint8_t {
  done = 1,
  taken = 2,  // to claim: the key has a value already
  full = 3,   // the store, or the number of waiting requests, has reached its limit
  value = 4,  // to get
};
struct Reply {
  Answer answer = Answer::done;
  std::uint32_t id = 0;
  std::string value;
};

std::string encode(const StoreRequest& request);
std::string encode(const Reply& reply);
// nullopt: not a message that this protocol knows, or one beyond its limits.
std::optional<StoreRequest> decode_request(std::string_view body);
std::optional<Reply> decode_reply(std::string_view body);

}  // namespace paceline
