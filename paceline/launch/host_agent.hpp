// run_host_agent: what `paceline host-agent` does, on each host of a job whose launcher is elsewhere. It greets, reads
// its orders from standard input, starts the workers of its host, and says what becomes of them on standard output
// (host_protocol.hpp). When its input ends, its launcher is gone, and it kills them.
#pragma once

#include "paceline/launch/worker_environment.hpp"

namespace paceline {

// `environment` is this process's own. Returns the process's exit code. Call it from the main thread, with no other
// threads running.
int run_host_agent(const EnvironmentList& environment);

}  // namespace paceline
