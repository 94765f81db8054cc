// Endpoint: one rank's door to the others. Tagged messages between any two ranks, ordered for each pair, context and
// tag, of any size from 0 bytes up; the one matching queue above all transports.
//
//   auto reply = endpoint.receive(1, {context, 7}, std::as_writable_bytes(std::span(numbers)));
//   endpoint.send(1, {context, 6}, question).wait();
//   reply.wait();                                     // throws Error if rank 1 is gone
//
// One thread owns an Endpoint, its Pending handles and its Arenas. Nothing runs behind the owner's back: messages move
// while the owner is inside a call of this class (wait, test, progress, send, receive). An owner may lend it to another
// thread and take it back (Mover).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

class Arena;
class Endpoint;

// How far a send or receive has come. Here, and not with the rest of Operation, so that asking costs no call.
struct OperationStatus {
  enum class Phase : std::uint8_t {
    queued,     // send: not announced yet. receive: posted, not matched
    requested,  // send: announced, waits for the grant
    streaming,  // payload is moving
    complete,
    failed,
  };
  Phase phase = Phase::queued;
  std::unique_ptr<Error> error;

  bool ended() const { return phase >= Phase::complete; }
};
struct Operation;

inline constexpr Rank kAnyRank = -2;

struct Tag {
  std::uint64_t context = 0;  // keeps groups, epochs and services apart
  std::uint64_t value = 0;

  bool operator==(const Tag&) const = default;
};

// How an arriving piece of payload enters the receive buffer. `bytes` is a multiple of 64 except for a message's last
// piece.
using Combine = void (*)(std::byte* into, const std::byte* piece, std::size_t bytes);

// The handle of a send or receive under way. Move-only; destroying the handle of an incomplete operation cancels it, so
// that its buffer is never touched after the handle is gone. The Endpoint outlives its handles.
class Pending {
 public:
  Pending() = default;  // a complete operation of 0 bytes
  Pending(Pending&& other) noexcept
      : endpoint_(std::exchange(other.endpoint_, nullptr)), status_(std::exchange(other.status_, nullptr)) {}
  Pending& operator=(Pending&& other) noexcept;
  ~Pending() {
    if (status_ != nullptr) drop();
  }

  // Moves messages, then says whether the operation has ended, well or not.
  bool test();
  // As test, without moving messages.
  bool done() const { return status_ == nullptr || status_->ended(); }
  // Returns when the operation is complete; throws its Error if it failed.
  void wait();
  // As wait, but throws Error{timeout} at `deadline`; the operation goes on and can be waited for again.
  void wait_until(TimePoint deadline);
  // The Error of a failed operation; nullptr if it is under way or succeeded.
  const Error* error() const { return status_ == nullptr ? nullptr : status_->error.get(); }

  // Of a complete receive: who sent it, and how many bytes.
  Rank source() const;
  std::size_t bytes() const;

 private:
  friend class Endpoint;
  Pending(Endpoint* endpoint, Operation* operation);
  const Operation& operation() const;
  void drop() noexcept;

  Endpoint* endpoint_ = nullptr;
  OperationStatus* status_ = nullptr;  // of an Operation; nullptr: complete
};

struct TrafficCounters {
  std::uint64_t bytes_sent = 0;  // payload handed to the transport
  std::uint64_t bytes_received = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_sent_to_other_hosts = 0;  // of bytes_sent
  std::uint64_t bytes_direct = 0;               // read from or written to peers' mapped memory instead of being sent
};

class Endpoint {
 public:
  explicit Endpoint(std::unique_ptr<Transport> transport);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Rank rank() const;
  int size() const;
  const Transport::Facts& facts() const;
  const Clock& clock() const;
  // What a peer's clock shows when this rank's shows 0, as well as it is known.
  Duration clock_offset(Rank peer) const;
  // "rank 3 (host lab7, pid 4711)"
  std::string describe(Rank peer) const;

  // `bytes` must stay as they are until the send is complete. A send of a few bytes is usually complete at once.
  Pending send(Rank to, Tag tag, std::span<const std::byte> bytes, std::uint64_t fingerprint = 0);

  struct ReceiveOptions {
    Combine combine = nullptr;      // nullptr copies
    std::uint64_t fingerprint = 0;  // a matching message with another one fails the receive with Code::mismatch,
    bool exact = false;             // and if this is set, one that is shorter than the buffer as well
  };
  // `from` may be kAnyRank. A message longer than `into` fails the receive with Code::invalid.
  Pending receive(Rank from, Tag tag, std::span<std::byte> into, ReceiveOptions options);
  Pending receive(Rank from, Tag tag, std::span<std::byte> into) { return receive(from, tag, into, {}); }
  // For messages whose size the receiver does not know: `into` is resized to the message.
  Pending receive(Rank from, Tag tag, std::vector<std::byte>& into);

  // Moves whatever can be moved now; true if anything was.
  bool progress();
  // Sleeps until something may have happened, or until `until`. Call progress() first and after.
  void idle(TimePoint until);
  // For a thread to which the owner lends the Endpoint now and then: see Transport.
  int descriptor() const;
  std::optional<TimePoint> arm();

  // Forgets messages of `context` that nobody has received and drops those still to arrive.
  void retire(std::uint64_t context);

  // See Transport: the board that peers can read, and the number of alerts seen so far.
  void publish(std::size_t slot, const BoardRecord& record, Wake wake);
  std::optional<BoardRecord> read_board(Rank peer, std::size_t slot) const;
  std::uint64_t alerts() const;

  bool gone(Rank peer) const;
  // Gone without having closed its endpoint.
  bool lost(Rank peer) const;
  // Lost because its host does not answer: it may live on.
  bool unreachable(Rank peer) const;
  // The Error that says how a peer that is gone went.
  Error departure(Rank peer) const;
  // Grows by one with each peer that leaves or dies.
  std::uint64_t departures() const;

  // Memory that peers of this host can map; 64-byte aligned, zeroed. Throws Error{system} when there is not enough.
  Arena allocate(std::size_t bytes);
  struct Location {
    std::uint64_t region = 0;
    std::uint64_t offset = 0;
  };
  // Where `bytes` at `data` lie in this rank's arenas; nullopt for other memory.
  std::optional<Location> locate(const void* data, std::size_t bytes) const;
  // A peer's arena in this rank's address space.
  std::optional<std::span<std::byte>> map(Rank peer, std::uint64_t region);

  const TrafficCounters& counters() const;
  std::uint64_t bytes_sent_to(Rank peer) const;  // of counters().bytes_sent
  void count_direct(std::size_t bytes);

  // What the layer above keeps once per Endpoint, for as long as the Endpoint lives.
  std::shared_ptr<void>& attachment();

  // Leaves in good order: peers learn that this rank has closed, not died. The destructor calls it.
  void close();

 private:
  friend class Arena;
  friend class Pending;
  class State;
  std::unique_ptr<State> state_;
};

// Owns a region of shared memory; released on destruction. Must not outlive its Endpoint.
class Arena {
 public:
  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  std::span<std::byte> memory() const { return region_.memory; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(region_.memory.data()), region_.memory.size() / sizeof(T)};
  }

 private:
  friend class Endpoint;
  Arena(Endpoint* endpoint, SharedRegion region) : endpoint_(endpoint), region_(region) {}

  Endpoint* endpoint_ = nullptr;
  SharedRegion region_;
};

}  // namespace paceline
