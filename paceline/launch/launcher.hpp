// run: what `paceline run` does. Starts the workers of a job on this machine, serves their rendezvous, passes their
// output and its own signals on, and ends when all have ended. One single-threaded event loop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/launch/cores.hpp"
#include "paceline/launch/worker_environment.hpp"

namespace paceline {

struct RunOptions {
  std::vector<std::string> command;  // the program and its arguments
  EnvironmentList environment;       // the launcher's own
  int workers = 1;
  std::optional<int> threads;  // per worker; nullopt: cores / workers
  Bind bind = Bind::none;
  Duration grace = std::chrono::seconds(5);  // from SIGTERM to SIGKILL, once a worker has failed
  bool prefix = true;                        // lines begin with the rank
  bool inherit_output = false;               // workers write to the launcher's own output: one that draws, say
  // A worker that ends with this code did so because another one failed: that one is the verdict.
  std::optional<int> follower_code = {};
};

// Returns the exit code: 0 when all workers ended well, else that of the first failure. Call it from a process's main
// thread, with no other threads running. Throws Error when the job cannot be started.
int run(const RunOptions& options);

}  // namespace paceline
