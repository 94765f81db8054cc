// Boards: each rank's records, as far as they have come to each reader. And Regions: the memory that ranks of one host
// share. Used by the holder of the baton only (see Scheduler).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "paceline/fabric/sim/network.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline::sim {

class Boards {
 public:
  Boards(int ranks, Network& network);

  // `settled`: every later read happens at or after this time.
  void publish(Rank owner, std::size_t slot, const BoardRecord& record, Wake wake, TimePoint now, TimePoint settled);
  std::optional<BoardRecord> read(Rank reader, Rank owner, std::size_t slot, TimePoint now);
  // What the owner published and has not arrived never will.
  void crash(Rank owner, TimePoint now);

 private:
  struct Version {
    TimePoint arrival;
    BoardRecord record;
  };
  using Versions = std::vector<Version>;  // of one slot for one reader, in the order of arrival; few
  Versions& versions(Rank owner, Rank reader, std::size_t slot);

  int ranks_;
  Network& network_;
  std::vector<Versions> versions_;
};

// Memory stays until the world ends, because a peer that mapped it may still write after its owner left; only what
// nobody mapped is freed on release.
class Regions {
 public:
  Regions(int ranks, bool shared) : shared_(shared), owners_(static_cast<std::size_t>(ranks)) {}

  SharedRegion allocate(Rank owner, std::size_t bytes);
  void release(Rank owner, std::uint64_t id);
  // The owner closed or died.
  void leave(Rank owner);
  std::optional<std::span<std::byte>> map(Rank reader, Rank owner, std::uint64_t id);

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Region {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
    bool released = false;
    bool mapped = false;
  };
  struct Owner {
    std::map<std::uint64_t, Region> regions;
    std::uint64_t last_id = 0;
    bool left = false;
  };
  Owner& owner(Rank rank) { return owners_[static_cast<std::size_t>(rank)]; }

  bool shared_;
  std::vector<Owner> owners_;
};

}  // namespace paceline::sim
