// For the tests of sim: a rank's code on a bare Transport, without an Endpoint.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/fabric/sim/sim.hpp"

namespace paceline::sim_test {

// Keeps all that it is given.
struct Collector final : TransportSink {
  struct Frame {
    Rank from;
    FrameHeader header;
    std::vector<std::byte> payload;
  };
  std::vector<Frame> frames;
  std::vector<std::pair<Rank, Departure>> departures;
  int alerts = 0;

  void on_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) override {
    frames.push_back({from, header, {payload.begin(), payload.end()}});
  }
  void on_departure(Rank peer, Departure how) override { departures.emplace_back(peer, how); }
  void on_alert() override { ++alerts; }

  std::vector<std::uint64_t> tags_from(Rank peer) const {
    std::vector<std::uint64_t> tags;
    for (const Frame& frame : frames) {
      if (frame.from == peer) tags.push_back(frame.header.tag);
    }
    return tags;
  }
  std::optional<Departure> departure_of(Rank peer) const {
    for (const auto& [who, how] : departures) {
      if (who == peer) return how;
    }
    return std::nullopt;
  }
};

struct Node {
  std::unique_ptr<Transport> transport;
  Collector got{};

  TimePoint now() { return transport->clock().now(); }
  TimePoint since_start(Duration span) const { return kSimStart + span; }

  bool try_put(Rank to, std::uint64_t tag, std::size_t bytes = 0) {
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(tag));
    FrameHeader header;
    header.bytes = static_cast<std::uint32_t>(bytes);
    header.tag = tag;
    return transport->put(to, header, payload.data());
  }
  void put(Rank to, std::uint64_t tag, std::size_t bytes = 0) {
    while (!try_put(to, tag, bytes)) {
      if (!transport->poll(got)) transport->wait(kNever);
    }
  }
  template <class Condition>
  void until(Condition condition) {
    while (!condition()) {
      if (!transport->poll(got)) transport->wait(kNever);
    }
  }
  void sleep_until(TimePoint time) {
    while (now() < time) {
      transport->poll(got);
      transport->wait(time);
    }
    transport->poll(got);
  }
};

// Each rank sends `frames` to every other one and takes what they send to it, or their departure.
inline void everybody_to_everybody(Node& node, int frames, std::size_t bytes = 100) {
  const Rank me = node.transport->facts().rank;
  const int size = node.transport->facts().size;
  for (int i = 0; i < frames; ++i) {
    for (Rank peer = 0; peer < size; ++peer) {
      if (peer != me) node.put(peer, static_cast<std::uint64_t>(i), bytes);
    }
  }
  node.until([&] {
    for (Rank peer = 0; peer < size; ++peer) {
      const bool complete = node.got.tags_from(peer).size() == static_cast<std::size_t>(frames);
      if (peer != me && !complete && !node.got.departure_of(peer)) return false;
    }
    return true;
  });
}

// Runs `body(Node&, Rank)` on each rank, then closes its Transport.
template <class Body>
SimReport run(SimOptions options, Body body) {
  SimWorld world(std::move(options));
  return world.run([&](std::unique_ptr<Transport> transport, Rank rank) {
    Node node{std::move(transport)};
    body(node, rank);
    node.transport->close();
  });
}

}  // namespace paceline::sim_test
