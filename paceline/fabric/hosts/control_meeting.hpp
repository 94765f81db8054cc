// How the control connections of a job are made: each rank calls those of other hosts below it and answers those above.
// Both sides begin with a hello that carries the job's token; who does not know it is sent away.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/fabric/descriptor.hpp"
#include "paceline/fabric/hosts/control.hpp"

namespace paceline {

// By rank; invalid for ranks of this host. Counts those who were sent away. Throws Error{peer_lost}, {timeout} or
// {refused} naming the rank.
std::vector<Descriptor> meet_peers(const Control::Options& options, const ControlDoor& door, std::uint64_t& strangers);

}  // namespace paceline
