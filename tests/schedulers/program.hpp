// Programs that may be installed or not.
#pragma once

#include <string>

namespace paceline {

// The path of a program on PATH or among the system's own; empty if there is none.
std::string find_program(const std::string& name);
// In a build with the address sanitizer: processes that are started from here on may leak what PMIx leaks.
void forgive_leaks_of_pmix();

}  // namespace paceline
