#include "paceline/fabric/sim/sim_transport.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline::sim {
namespace {

constexpr int kFirstPid = 1000;

Transport::Facts facts_of(const SimOptions& options, Rank rank) {
  const int ranks_of_host = options.shared_memory ? options.ranks : 1;
  std::vector<int> hosts(static_cast<std::size_t>(options.ranks), 0);
  if (!options.shared_memory) std::iota(hosts.begin(), hosts.end(), 0);
  return {.rank = rank,
          .size = options.ranks,
          .cores = options.cores > 0 ? options.cores : ranks_of_host,
          .mapped_memory = options.shared_memory,
          .hosts = std::move(hosts),
          .backend = "sim",
          .eager_window = options.eager_window};
}

}  // namespace

SimTransport::SimTransport(Core& core, Rank rank)
    : core_(core),
      facts_(facts_of(core.options, rank)),
      clock_(core, rank),
      told_gone_(static_cast<std::size_t>(core.options.ranks), false) {
  for (Rank peer = 0; peer < facts_.size; ++peer) {
    identities_.push_back({core.options.shared_memory ? "sim" : fmt::format("sim{}", peer), kFirstPid + peer});
  }
}

SimTransport::~SimTransport() { core_.abandon(facts_.rank); }

bool SimTransport::put(Rank to, const FrameHeader& header, const std::byte* payload) {
  CHECK(header.bytes <= core_.options.max_payload, "a frame's payload is at most max_payload");
  if (!core_.enter(facts_.rank, core_.options.costs.put, Throws::no)) return true;
  return core_.network.put(facts_.rank, to, header, payload, core_.scheduler.now(facts_.rank));
}

bool SimTransport::poll(TransportSink& sink) {
  const Rank rank = facts_.rank;
  if (!core_.enter(rank, core_.options.costs.poll, Throws::yes)) {
    if (core_.gone(rank)) lose_everybody(sink);
    return false;
  }
  // Taken one by one, and only those that are here now: the sink may put, and more may arrive meanwhile.
  const std::size_t here = core_.network.arrived(rank);
  for (std::size_t i = 0; i < here; ++i) {
    const Arrival arrival = core_.network.take(rank, core_.scheduler.now(rank));
    if (arrival.departure) {
      told_gone_[static_cast<std::size_t>(arrival.from)] = true;
      sink.on_departure(arrival.from, *arrival.departure);
    } else {
      sink.on_frame(arrival.from, arrival.header, arrival.payload);
    }
  }
  const bool alert = core_.network.take_alert(rank, core_.scheduler.now(rank));
  if (alert) sink.on_alert();
  const bool room = core_.network.take_room(rank);
  return here > 0 || alert || room;
}

void SimTransport::lose_everybody(TransportSink& sink) {
  for (Rank peer = 0; peer < facts_.size; ++peer) {
    if (peer == facts_.rank || told_gone_[static_cast<std::size_t>(peer)]) continue;
    told_gone_[static_cast<std::size_t>(peer)] = true;
    sink.on_departure(peer, Departure::lost);
  }
}

void SimTransport::publish(std::size_t slot, const BoardRecord& record, Wake wake) {
  if (!core_.enter(facts_.rank, core_.options.costs.publish, Throws::no)) return;
  const TimePoint now = core_.scheduler.now(facts_.rank);
  core_.trace.add({.time = now, .event = SimEvent::publish, .rank = facts_.rank, .number = slot});
  core_.boards.publish(facts_.rank, slot, record, wake, now, now - core_.network.lookahead());
}

std::optional<BoardRecord> SimTransport::read_board(Rank peer, std::size_t slot) const {
  if (!core_.enter(facts_.rank, core_.options.costs.read_board, Throws::yes)) return std::nullopt;
  return core_.boards.read(facts_.rank, peer, slot, core_.scheduler.now(facts_.rank));
}

SharedRegion SimTransport::allocate(std::size_t bytes) {
  core_.enter(facts_.rank, core_.options.costs.region, Throws::yes);
  return core_.regions.allocate(facts_.rank, bytes);
}

void SimTransport::release(std::uint64_t region) {
  core_.enter(facts_.rank, core_.options.costs.region, Throws::no);
  core_.regions.release(facts_.rank, region);
}

std::optional<std::span<std::byte>> SimTransport::map(Rank peer, std::uint64_t region) {
  if (!core_.enter(facts_.rank, core_.options.costs.region, Throws::yes)) return std::nullopt;
  return core_.regions.map(facts_.rank, peer, region);
}

const Identity& SimTransport::identity(Rank peer) const { return identities_[static_cast<std::size_t>(peer)]; }

}  // namespace paceline::sim
