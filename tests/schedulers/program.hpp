// Programs that may be installed or not, and what is special about them.
#pragma once

#include <string>

#include "tests/launch/command.hpp"

namespace paceline {

// The path of a program on PATH or among the system's own; empty if there is none.
std::string find_program(const std::string& name);
// In a build with the address sanitizer: processes that are started from here on may leak what PMIx leaks.
void forgive_leaks_of_pmix();
// What mpirun ends with. It has been seen to die while it cleans up (Open MPI 4.1.4, in PMIx_server_finalize), after
// the job is over and it has said how; then it is what it said.
int exit_code_of_mpirun(const Ended& ended);

}  // namespace paceline
