// Wire: carries frames between ranks of different hosts, and that is all. Which ranks those are, who has died, boards
// and the ranks of this host are HostsTransport's business.
//
// Frames of a pair arrive in the order in which they were put, or the pair's link has failed. One thread owns a Wire.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/fabric/transport.hpp"

namespace paceline {

// What every message of a job carries, and nobody else knows.
using Token = std::array<std::byte, 16>;

class WireSink {
 public:
  // The payload is valid during the call only, and aligned to nothing.
  virtual void on_wire_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) = 0;
  // Nothing more will come from this peer or reach it.
  virtual void on_wire_failure(Rank peer) = 0;

 protected:
  ~WireSink() = default;
};

class Wire {
 public:
  virtual ~Wire() = default;

  // Where this rank can be reached; for the others' connect.
  virtual std::string address() const = 0;
  struct ConnectOptions {
    Rank rank = 0;
    Token token = {};
    std::vector<std::string> addresses = {};  // by rank; empty: no concern of this wire (itself, ranks of its host)
  };
  // Once, before anything below. Throws Error for an address that cannot be used, naming the rank.
  virtual void connect(const ConnectOptions& options) = 0;

  // Takes a copy of the frame; false when there is no room now. A frame to a peer whose link has failed is dropped.
  virtual bool put(Rank to, const FrameHeader& header, const std::byte* payload) = 0;
  // Hands over what has arrived; true if there was anything, or if room has come free.
  virtual bool progress(WireSink& sink) = 0;
  // Before sleeping on descriptor(): false when there is something to do already.
  virtual bool arm() = 0;
  virtual int descriptor() const = 0;
  // When progress will have something to do even if nothing happens at the descriptor.
  virtual TimePoint due() const { return kNever; }
  // Whether all frames that were put have been handed to the network.
  virtual bool flushed() const = 0;

  virtual std::size_t max_payload() const = 0;
  // For a person: "ucx over eth0".
  virtual std::string describe() const = 0;
  // Messages that did not carry the job's token, or were no frames.
  virtual std::uint64_t strangers() const = 0;
};

}  // namespace paceline
