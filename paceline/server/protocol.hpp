// What workers and servers say to each other: one message for a request, one for its reply. docs/wire.md has the bytes.
//
// A request is a RequestHeader, then the table's spec (open), the keys unless they are a range or remembered, and
// the values unless they lie in the worker's mapped memory. A reply is a ReplyHeader, the clocks of the updates
// that it contains, one for each worker, and the values, or a sentence where the request was refused. Nothing that
// comes in is believed before it has been checked: parse_request and parse_reply check the form, the shard what only it
// can know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/fabric/endpoint.hpp"

namespace paceline {

inline constexpr std::uint64_t kServerContext = 0x7061636573727672;  // "pacesrvr": requests, replies
inline constexpr Tag kRequestTag{kServerContext, 0};
inline constexpr std::uint32_t kRequestMagic = 0x51524b50;  // "PKRQ"
inline constexpr std::uint32_t kReplyMagic = 0x50524b50;    // "PKRP"

enum class Verb : std::uint8_t {
  open = 1,  // make a table, or find the one that another worker has made
  put,       // set rows of a dense table to values, before training begins
  push,      // apply values to rows
  pull,      // read rows, as soon as they contain what must be in them
  clock,     // the worker has ended its step `clock - 1`
  leave,     // it makes no more updates
  statistics,
  lost,          // bsp: a relay has lost a worker; a sentence says whom
  loads,         // how often rows of each bucket were asked for
  plan,          // of server 0: where the buckets are from step `clock` on; brings the loads of all servers
  adopt,         // from step `clock` on the buckets are there
  snapshot,      // keep the table as it is, as soon as it contains what must be in it, to be read piece by piece
  piece,         // the next rows of the snapshot that request `first` has begun; without rows: it is over
  end_snapshot,  // of the one that request `first` has begun
  restore,       // set rows with what the rule remembers of them
};
inline constexpr Verb kLastVerb = Verb::restore;
std::string_view name(Verb verb);

// How a request names its rows.
enum class RowNames : std::uint8_t {
  none,
  listed,      // keys follow; the server remembers the list by its hash
  remembered,  // the hash of a list that it has had before
  range,       // rows `first` to `first + count` of a dense table
};

// 128-bit hash of a list of keys (XXH3).
struct KeysHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const KeysHash&) const = default;
};
KeysHash hash_of(std::span<const std::uint64_t> keys);

// Where values lie in the memory of the worker that asks; region 0: in the message.
struct MappedValues {
  std::uint64_t region = 0;
  std::uint64_t offset = 0;
};

struct RequestHeader {
  std::uint32_t magic = kRequestMagic;
  Verb verb = Verb::pull;
  RowNames rows = RowNames::none;
  std::uint16_t reserved = 0;
  std::uint32_t table = 0;
  std::uint32_t worker = 0;
  std::uint64_t sequence = 0;  // counts this worker's requests to this server from 1; the tag of the reply
  std::int64_t clock = 0;      // the worker's, when it asks
  std::int64_t required = 0;   // pull, snapshot: updates of all workers of steps before this one must be in the values
  std::uint64_t version = 0;   // push: the reply's version from which the gradient was computed
  std::uint64_t first = 0;     // row of a range; of piece and end_snapshot, the request that has begun the snapshot
  std::uint64_t count = 0;     // rows; of piece, at most so many, 0: as the server likes
  KeysHash hash = {};
  MappedValues push_from = {};
  MappedValues pull_into = {};
  double rate = 0;  // push: learning rate of now; 0: the rule's own
};
static_assert(sizeof(RequestHeader) == 120);

// Of a message that begins as a request; otherwise one whose sequence is 0.
RequestHeader header_of(std::span<const std::byte> message);

// A request after a look at its form. The spans lie in the message.
struct TableRequest {
  RequestHeader header;
  // Of open; of lost, the sentence; of plan and adopt, the loads and the owners; of restore, a piece.
  std::span<const std::byte> spec;
  std::span<const std::uint64_t> keys;
  std::span<const float> values;  // empty where they are mapped or there are none
};
std::string_view sentence_of(const TableRequest& request);
// Throws Error{invalid} with a sentence for the worker: too short, absurd lengths, unknown words.
TableRequest parse_request(std::span<const std::byte> message);

enum class Status : std::uint8_t {
  done = 0,
  refused,      // a sentence says why; nothing has changed
  forgotten,    // the keys' hash is not known any more: send the list
  worker_lost,  // what was asked can never be, because a worker has died; a sentence says who
};

struct ReplyHeader {
  std::uint32_t magic = kReplyMagic;
  Status status = Status::done;
  std::uint8_t reserved[3] = {};
  std::uint32_t table = 0;    // open: the number by which it is called from now on
  std::uint32_t workers = 0;  // clocks that follow
  std::uint64_t version = 0;  // updates that the table on this server has applied
  std::uint64_t heard = 0;    // the last of the worker's requests that came before this answer was made
  std::uint64_t values = 0;   // floats that follow the clocks; 0 where they were written to mapped memory
};
static_assert(sizeof(ReplyHeader) == 40);

struct TableReply {
  ReplyHeader header;
  std::span<const std::int64_t> contained;  // of each worker: its updates of steps before this one are in the values
  std::span<const float> values;
  std::string_view sentence;
};
// Throws Error{refused}: not a reply.
TableReply parse_reply(std::span<const std::byte> message);

void append_bytes(std::vector<std::byte>& message, std::span<const std::byte> bytes);
template <class T>
void append(std::vector<std::byte>& message, std::span<const T> items) {
  append_bytes(message, std::as_bytes(items));
}
template <class Header>
void append_header(std::vector<std::byte>& message, const Header& header) {
  const std::size_t begin = message.size();
  message.resize(begin + sizeof header);
  std::memcpy(message.data() + begin, &header, sizeof header);
}

}  // namespace paceline
