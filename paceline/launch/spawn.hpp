// spawn: starts one worker, in a process group of its own, with its standard streams replaced.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/cores.hpp"

namespace paceline {

struct SpawnOptions {
  std::string file;                      // the program's path
  std::vector<std::string> arguments;    // the first is the program's name
  std::vector<std::string> environment;  // NAME=value
  int standard[3] = {0, 1, 2};           // become its standard input, output, error
  int lifeline = -1;                     // stays open in the program
  int guardian = -1;                     // is told the worker's process id
  Cores cores;                           // to be bound to; empty: not bound
  sigset_t signal_mask = {};             // what the launcher itself was started with, as the next one
  rlimit open_files = {};                // likewise
};

struct Spawned {
  pid_t pid = -1;
  Descriptor process;  // a pidfd
  int error = 0;       // errno of what kept the program from starting; nothing runs then
};
// Returns when the program has taken over or could not be started. The worker is killed when the calling thread ends.
// Throws Error{system} when there is no room for another process.
Spawned spawn(const SpawnOptions& options);

// Where `program` is, as a shell would look for it along `path`; empty if there is none.
std::string find_program(const std::string& program, const std::string& path);

}  // namespace paceline
