// run_processes(n, body): runs body(endpoint) once per rank, each in a process of its own over the shm back end, and
// returns how each process ended (as waitpid tells). For tests: it forks, so the calling process must have one thread
// only. A body that throws ends its process with status 1 and the sentence on standard error.
#pragma once

#include <functional>
#include <vector>

#include "paceline/fabric/endpoint.hpp"

namespace paceline::shm {

std::vector<int> run_processes(int size, const std::function<int(Endpoint&)>& body);

}  // namespace paceline::shm
