// What the launcher does with descriptors of its own.
#pragma once

#include <sys/resource.h>

#include "paceline/fabric/descriptor.hpp"

namespace paceline {

// Both ends closed on exec. Throws Error{system}.
struct Pipe {
  Pipe();
  Descriptor read_end;
  Descriptor write_end;
};

// A launcher started with a standard stream closed would otherwise get a pipe or socket of its own in that place.
void occupy_standard_descriptors();

// A few descriptors per worker add up: takes as many as the system allows. Returns the limit as it was, for the
// workers.
rlimit raise_open_files();

}  // namespace paceline
