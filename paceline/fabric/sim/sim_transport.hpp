// SimTransport: one rank's Transport in a simulated world. Used on the rank's own thread, and gone before that thread's
// body ends. When its calls throw, and what: Note [Ending a rank] in core.hpp.
#pragma once

#include <vector>

#include "paceline/fabric/sim/core.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline::sim {

// Virtual time. Reading it takes some, so that a loop that only reads the time ends.
class SimClock final : public Clock {
 public:
  SimClock(Core& core, Rank rank) : core_(core), rank_(rank) {}
  TimePoint now() const override { return core_.read_clock(rank_); }

 private:
  Core& core_;
  Rank rank_;
};

class SimTransport final : public Transport {
 public:
  SimTransport(Core& core, Rank rank);
  ~SimTransport() override;

  bool put(Rank to, const FrameHeader& header, const std::byte* payload) override;
  bool poll(TransportSink& sink) override;
  void wait(TimePoint until) override { core_.wait(facts_.rank, until); }
  int descriptor() const override { return -1; }
  std::optional<TimePoint> arm() override { return std::nullopt; }

  void publish(std::size_t slot, const BoardRecord& record, Wake wake) override;
  std::optional<BoardRecord> read_board(Rank peer, std::size_t slot) const override;

  SharedRegion allocate(std::size_t bytes) override;
  void release(std::uint64_t region) override;
  std::optional<std::span<std::byte>> map(Rank peer, std::uint64_t region) override;

  void close() override { core_.close(facts_.rank); }

  const Facts& facts() const override { return facts_; }
  const Identity& identity(Rank peer) const override;
  const Clock& clock() const override { return clock_; }
  Duration clock_offset(Rank /*peer*/) const override { return Duration(0); }
  std::size_t max_payload(Rank /*to*/) const override { return core_.options.max_payload; }

 private:
  void lose_everybody(TransportSink& sink);

  Core& core_;
  const Facts facts_;
  const SimClock clock_;
  std::vector<Identity> identities_;
  std::vector<bool> told_gone_;  // by rank: on_departure has been called
};

}  // namespace paceline::sim
