// What happened in a run: a hash over every event, by which two runs are told to be the same, and the last events for a
// person to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/fabric/transport.hpp"

namespace paceline {

enum class SimEvent : std::uint8_t {
  put,        // rank gave a frame for peer to the network
  refused,    // … and there was no room
  lost,       // the network lost a transmission of rank's frame to peer
  vanished,   // a frame from peer came too late: the link was cut or its host had crashed
  held,       // a frame from peer came before its predecessors
  duplicate,  // a frame from peer came a second time
  frame,      // rank took a frame from peer
  departure,  // rank was told that peer is gone; `number` is the Departure
  alert,      // rank was told that somebody published
  publish,    // rank wrote slot `number` of its board
  wait,       // rank sleeps
  wake,       // … and goes on
  pause,      // rank is held up
  close,
  death,
  finish,
  stop,  // the run was ended by the simulator
};

struct SimTraceEntry {
  TimePoint time;
  SimEvent event;
  Rank rank = kNoRank;
  Rank peer = kNoRank;
  std::uint64_t number = 0;  // sequence number of a frame within its link
  FrameHeader header{};
};

std::string describe(const SimTraceEntry& entry);
// Since the start of the run, as "12.345 us".
std::string describe_time(TimePoint time);

namespace sim {

class Trace {
 public:
  explicit Trace(std::size_t keep) : keep_(keep) {}
  void add(const SimTraceEntry& entry);

  std::uint64_t hash() const { return hash_; }
  // Oldest first.
  std::vector<SimTraceEntry> last() const;

 private:
  std::size_t keep_;
  std::uint64_t hash_ = 0;
  std::uint64_t count_ = 0;
  std::vector<SimTraceEntry> ring_;
};

}  // namespace sim
}  // namespace paceline
