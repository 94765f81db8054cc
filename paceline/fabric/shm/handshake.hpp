// How the ranks of one host meet: each connects to the Doors of all lower ranks and opens its own to the higher ones.
// Both sides show the job's token, and hand over their inbox and doorbell.
#pragma once

#include <memory>
#include <vector>

#include "paceline/fabric/cores.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/fabric/shm/memfd.hpp"
#include "paceline/fabric/shm/shm.hpp"

namespace paceline::shm {

// One peer after the handshake; of the rank itself, only mapping and doorbell are there.
struct Met {
  Descriptor socket;
  Descriptor doorbell;
  Descriptor pidfd;                // invalid where the kernel cannot name the peer; its socket then tells of its end
  CoreSet cores;                   // that it may run on
  std::shared_ptr<Mapping> inbox;  // shared by ranks that are threads of one process, see make_shm_thread_endpoints
};

std::vector<Met> meet(const ConnectOptions& options, const Door& door);

}  // namespace paceline::shm
