// Transport: what a back end does, and all it does. It moves frames between ranks, in order for each pair, keeps each
// rank's board where the others can read it, and lends memory that peers on the same host can map. Messages, matching
// and flow control are above it, in Endpoint, once for all back ends.
//
// Within a job's life the link of a pair is reliable and ordered, or dead. One thread owns a Transport; only the
// objects that peers share with it are touched by others, and each back end says how.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"

namespace paceline {

enum class FrameKind : std::uint8_t {
  eager = 1,  // a whole message with its payload
  request,    // a message wants to be sent: its payload stays with the sender until it is granted
  grant,      // answer to a request: the receiver has matched it, send the payload
  data,       // a part of a granted message's payload
  cancel,     // the sender gives up a requested message; also a receiver that gives up a granted one
  credit,     // the receiver has consumed this many bytes (`total`) of eager messages
  stream,     // an eager message of several frames: as a request, and its data follows without a grant
};

// Describes one frame. Fields that a kind does not use are zero. 56 bytes, so that a back end can add an 8-byte stamp
// and fill exactly one cache line.
struct FrameHeader {
  FrameKind kind = FrameKind::eager;
  std::uint8_t reserved[3] = {};
  std::uint32_t bytes = 0;        // of the payload in this frame
  std::uint64_t context = 0;      // the group epoch or service that the message belongs to
  std::uint64_t tag = 0;          // which message it is, within the context
  std::uint64_t fingerprint = 0;  // of the operation that sent it
  std::uint64_t total = 0;        // bytes of the whole message
  std::uint64_t message = 0;      // the sender's number for it (request, stream, grant, data, cancel)
  std::uint64_t offset = 0;       // of this frame's payload in the message (data)
};
static_assert(sizeof(FrameHeader) == 56);

enum class Departure : std::uint8_t {
  closed,       // the peer closed its endpoint
  lost,         // the peer died
  unreachable,  // its host does not answer any more
};

// Who a rank is, for sentences that a person reads.
struct Identity {
  std::string host;
  int pid = 0;
};

// Receives what Transport::poll finds. Called only on the owner's thread, from inside poll.
class TransportSink {
 public:
  // The payload is valid during the call only.
  virtual void on_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) = 0;
  // Called once per peer, after the last frame that it sent has been handed over.
  virtual void on_departure(Rank peer, Departure how) = 0;
  // A peer published with `Wake::yes` since the last poll.
  virtual void on_alert() = 0;

 protected:
  ~TransportSink() = default;
};

// A board is a fixed number of small records that its owner overwrites and peers read at any time, also while the
// owner computes or hangs. A read gives a consistent record or none.
inline constexpr std::size_t kBoardSlots = 16;
inline constexpr std::size_t kBoardWords = 16;
using BoardRecord = std::array<std::uint64_t, kBoardWords>;
enum class Wake : bool { no, yes };

// Bytes of messages sent without asking that may wait unreceived at one peer. Large enough for dozens of full frames,
// small enough for 64 peers.
inline constexpr std::uint64_t kEagerWindow = 2 << 20;

// Memory that peers of the same host can read and write.
struct SharedRegion {
  std::uint64_t id = 0;  // unique among the regions of its owner; 0 is no region
  std::span<std::byte> memory;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Appends a frame to the link to `to`; false, and nothing happened, when there is no room now. A frame to a peer
  // that is gone is dropped and true is returned: its on_departure says why.
  virtual bool put(Rank to, const FrameHeader& header, const std::byte* payload) = 0;
  // Hands everything that has arrived to `sink`; true if there was anything, or if room has come free.
  virtual bool poll(TransportSink& sink) = 0;
  // Waits until poll may find something or a refused put may succeed, or until the clock reads `until`. May return
  // early.
  virtual void wait(TimePoint until) = 0;
  // The same for a thread that sleeps on its own while the owner does something else: a descriptor that becomes
  // readable; -1 if there is none. Before sleeping there, the owner's call of arm() says until when at most, or nullopt
  // when there is something to do already.
  virtual int descriptor() const = 0;
  virtual std::optional<TimePoint> arm() = 0;

  virtual void publish(std::size_t slot, const BoardRecord& record, Wake wake) = 0;
  virtual std::optional<BoardRecord> read_board(Rank peer, std::size_t slot) const = 0;

  // nullopt from map: the peer is on another host, has left, or has released the region.
  virtual SharedRegion allocate(std::size_t bytes) = 0;
  virtual void release(std::uint64_t region) = 0;
  virtual std::optional<std::span<std::byte>> map(Rank peer, std::uint64_t region) = 0;

  // Tells the peers that this rank leaves in good order. Nothing but destruction may follow.
  virtual void close() = 0;

  // Constant after construction.
  struct Facts {
    Rank rank = 0;
    int size = 1;
    int cores = 1;                // shared by the ranks of a host, the same number on every rank
    bool mapped_memory = true;    // regions of peers of this host can be mapped
    std::vector<int> hosts = {};  // by rank; ranks with the same number are on one host
    std::string backend = {};     // "thread", "shm", "hosts", "sim"
    std::string network = {};     // what carries frames between hosts, for a person
    std::uint64_t eager_window = kEagerWindow;
  };
  virtual const Facts& facts() const = 0;
  // Of one frame to this peer; constant.
  virtual std::size_t max_payload(Rank to) const = 0;
  virtual const Identity& identity(Rank peer) const = 0;
  virtual const Clock& clock() const = 0;
  // What the peer's clock shows when ours shows 0, as well as it is known.
  virtual Duration clock_offset(Rank peer) const = 0;
};

}  // namespace paceline
