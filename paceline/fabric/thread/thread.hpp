// The thread back end: ranks are threads of one process. The same inboxes as shm, in private memory.
#pragma once

#include <memory>
#include <vector>

#include "paceline/fabric/endpoint.hpp"

namespace paceline {

// One connected Endpoint per rank; hand each to its thread. They may be destroyed in any order.
std::vector<std::unique_ptr<Endpoint>> make_thread_endpoints(int size);

}  // namespace paceline
