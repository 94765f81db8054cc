// Collective operations on bytes of any number: words, JSON, what has no shape. All ranks call the same in the same
// order; see Communicator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"

namespace paceline {

// Sizes may differ, also between the root and the others.
void broadcast(Communicator& communicator, std::string& bytes, int root, const CollectiveOptions& options = {});
// By rank.
std::vector<std::string> allgather(Communicator& communicator, const std::string& bytes,
                                   const CollectiveOptions& options = {});
// Every rank's number, by rank: what allgatherv wants to know.
std::vector<std::int64_t> gather_counts(Communicator& communicator, std::int64_t own,
                                        const CollectiveOptions& options = {});

}  // namespace paceline
