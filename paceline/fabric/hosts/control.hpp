// Control: what ranks of different hosts tell each other beside their frames: that they live, what is on their boards,
// and that they leave. One TCP connection for each pair, and one thread, which sleeps unless there is something to say
// or to hear; so a rank answers while its owner computes.
//
// That a peer lives is the kernel's word: it acknowledges for a process that computes, or is stopped. A process that
// ends closes its connection; a host that has fallen silent is given up after `silence`.
//
// Who owns what: the thread owns the sockets, the owner (of the Endpoint) calls everything public, and what both need
// is behind one mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/fabric/hosts/wire.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

// From one number to another, both included; none: any port.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

// Listens at an address of this host.
class ControlDoor {
 public:
  // Throws Error{system}: the address is not this host's, or no port of the range is free.
  explicit ControlDoor(const std::string& ip, PortRange ports = {});
  // "10.0.0.1:40311"
  const std::string& address() const { return address_; }
  int socket() const { return socket_.number(); }

 private:
  std::string address_;
  Descriptor socket_;
};

class Control {
 public:
  struct Options {
    Rank rank = 0;
    Token token = {};
    std::vector<std::string> addresses = {};  // by rank; empty: a rank of this host
    std::vector<Identity> identities = {};    // by rank: for sentences
    TimePoint deadline = kNever;              // to have met all
    Duration silence = std::chrono::seconds(6);
    // This rank's own board; called from the thread.
    std::function<std::optional<BoardRecord>(std::size_t)> own_board = {};
  };
  // Meets all remote peers. Throws Error{peer_lost}, {timeout} or {refused} naming the rank.
  Control(ControlDoor door, Options options);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Sends the own board to all, with an alert.
  void push_board();
  // As far as it is known here. Asks for it anew, for the next time.
  std::optional<BoardRecord> read_board(Rank peer, std::size_t slot);

  // The owner has taken this many frames of a peer.
  void count_frames(Rank peer, std::uint64_t taken) {
    frames_[static_cast<std::size_t>(peer)].store(taken, std::memory_order_release);
  }
  // The owner leaves, having sent so many frames to each: tells all. leave_taken() says whether all have them, or are
  // gone.
  void take_leave(const std::vector<std::uint64_t>& frames_sent);
  bool leave_taken() const;

  struct News {
    bool alert = false;
    std::vector<std::pair<Rank, Departure>> lost = {};
    std::vector<std::pair<Rank, std::uint64_t>> leaving = {};  // with the number of frames that they have sent us
  };
  // What has come since the last call. Cheap if there is nothing.
  std::optional<News> collect();
  bool has_news() const { return fresh_.load(std::memory_order_seq_cst); }
  // Readable while there is news.
  int descriptor() const { return to_owner_.number(); }

  // What a peer's steady clock shows when ours shows 0, as well as could be measured; 0 before.
  Duration clock_offset(Rank peer) const;
  // Visitors who did not know the token.
  std::uint64_t strangers() const { return strangers_; }

 private:
  class Loop;
  std::vector<std::atomic<std::uint64_t>> frames_;
  Descriptor to_owner_;
  std::atomic<bool> fresh_ = false;
  std::uint64_t strangers_ = 0;
  std::unique_ptr<Loop> loop_;
};

}  // namespace paceline
