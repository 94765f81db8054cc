// run: what `paceline run` does. Starts the workers of a job, here or through an agent on each of several hosts, serves
// their rendezvous, passes their output and its own signals on, and ends when all have ended. One single-threaded event
// loop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/hosts/control.hpp"
#include "paceline/launch/cores.hpp"
#include "paceline/launch/host_list.hpp"
#include "paceline/launch/worker_environment.hpp"

namespace paceline {

// Where else than here, and how to get there.
struct HostOptions {
  std::vector<Host> hosts;             // with their workers, in the order of the ranks; none: this machine only
  std::string address;                 // of this machine, as the hosts reach it; empty: found for each host
  std::vector<std::string> ssh;        // is called with HOST COMMAND behind these words
  std::string remote_paceline;         // its path on the hosts; empty: that of this program
  std::vector<std::string> pass_also;  // variables that workers on other hosts get, beside PACELINE_*, UCX_*, OMP_*
};

// Servers in processes of their own: `count` of them, of the ranks after those of the workers. They end when the
// workers have; if one fails, the job does. Where they run, `hosts` say; if there are none, here.
struct ServerOptions {
  std::vector<std::string> command;
  int count = 0;
};

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
  // Exit codes of workers that have said everything themselves: they end the job as any other, without a word.
  std::vector<int> told_codes = {};
  ServerOptions servers = {};
  PortRange ports = {};     // for the store to listen in
  HostOptions remote = {};  // if it names hosts, these decide about `workers`
};

// Returns the exit code: 0 when all workers ended well, else that of the first failure. Call it from a process's main
// thread, with no other threads running. Throws Error when the job cannot be started.
int run(const RunOptions& options);

}  // namespace paceline
