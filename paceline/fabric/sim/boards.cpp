#include "paceline/fabric/sim/boards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "paceline/core/check.hpp"

namespace paceline::sim {

Boards::Boards(int ranks, Network& network)
    : ranks_(ranks),
      network_(network),
      versions_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * kBoardSlots) {}

Boards::Versions& Boards::versions(Rank owner, Rank reader, std::size_t slot) {
  CHECK(owner >= 0 && owner < ranks_ && slot < kBoardSlots, "the board and the slot exist");
  const std::size_t pair =
      static_cast<std::size_t>(owner) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(reader);
  return versions_[pair * kBoardSlots + slot];
}

namespace {

// Forgets what nobody can read any more at `now`: all but the newest that has arrived, and those to come.
template <class Versions>
void forget_before(Versions& versions, TimePoint now) {
  const auto to_come =
      std::find_if(versions.begin(), versions.end(), [&](const auto& version) { return version.arrival > now; });
  if (to_come - versions.begin() > 1) versions.erase(versions.begin(), to_come - 1);
}

}  // namespace

void Boards::publish(Rank owner, std::size_t slot, const BoardRecord& record, Wake wake, TimePoint now,
                     TimePoint settled) {
  for (Rank reader = 0; reader < ranks_; ++reader) {
    const TimePoint arrival = reader == owner ? now : network_.propagate(owner, reader, wake, now);
    if (arrival == kNever) continue;
    Versions& slot_versions = versions(owner, reader, slot);
    slot_versions.push_back({arrival, record});
    forget_before(slot_versions, settled);
  }
}

std::optional<BoardRecord> Boards::read(Rank reader, Rank owner, std::size_t slot, TimePoint now) {
  Versions& slot_versions = versions(owner, reader, slot);
  forget_before(slot_versions, now);
  if (slot_versions.empty() || slot_versions.front().arrival > now) return std::nullopt;
  return slot_versions.front().record;
}

void Boards::crash(Rank owner, TimePoint now) {
  for (Rank reader = 0; reader < ranks_; ++reader) {
    for (std::size_t slot = 0; slot < kBoardSlots; ++slot) {
      std::erase_if(versions(owner, reader, slot), [&](const Version& version) { return version.arrival > now; });
    }
  }
}

void Regions::Free::operator()(std::byte* memory) const { std::free(memory); }

SharedRegion Regions::allocate(Rank rank, std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  if (bytes > SIZE_MAX - kAlignment) throw Error(Code::system, rank, fmt::format("cannot allocate {} bytes", bytes));
  const std::size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw Error(Code::system, rank, fmt::format("cannot allocate {} bytes: out of memory", bytes));
  std::memset(memory, 0, rounded);
  Owner& mine = owner(rank);
  const std::uint64_t id = ++mine.last_id;
  Region& region = mine.regions[id];
  region.memory.reset(memory);
  region.bytes = bytes;
  return {id, {memory, bytes}};
}

void Regions::release(Rank rank, std::uint64_t id) {
  auto& regions = owner(rank).regions;
  const auto found = regions.find(id);
  CHECK(found != regions.end() && !found->second.released, "a region is released once, by its owner");
  found->second.released = true;
  if (!found->second.mapped) regions.erase(found);
}

void Regions::leave(Rank rank) { owner(rank).left = true; }

std::optional<std::span<std::byte>> Regions::map(Rank reader, Rank rank, std::uint64_t id) {
  Owner& whose = owner(rank);
  const auto found = whose.regions.find(id);
  const bool allowed = (shared_ || reader == rank) && !whose.left;
  if (!allowed || found == whose.regions.end() || found->second.released) return std::nullopt;
  found->second.mapped = true;
  return std::span(found->second.memory.get(), found->second.bytes);
}

}  // namespace paceline::sim
