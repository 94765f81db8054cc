// The catalogue: one row for each way in which an operation can be carried out. A new algorithm is a new row.
#pragma once

#include <span>
#include <vector>

#include "paceline/collective/descriptor.hpp"
#include "paceline/collective/schedule.hpp"
#include "paceline/collective/schedules.hpp"

namespace paceline {

// What a generator is told about the group.
struct Places {
  int ranks = 1;
  schedules::Teams teams = {};  // by host, if there are several
  bool several_hosts = false;
};

struct Way {
  // When `automatic` may become this way, if it is the cheapest.
  enum class Chosen {
    always,
    among_near_and_far,  // only where some ranks share a host and others do not
    never,               // there to be asked for, or to be compared with
  };

  Collective op;
  Algorithm algorithm;
  Chosen chosen;
  Schedule (*make)(const Places& places, int root, int index);
};

std::span<const Way> catalogue();
// nullptr: the operation has no such algorithm.
const Way* find_way(Collective op, Algorithm algorithm);
// In the catalogue's order.
std::vector<Algorithm> algorithms_of(Collective op);

}  // namespace paceline
