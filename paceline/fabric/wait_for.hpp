// wait_for: until a descriptor can be read (POLLIN) or written (POLLOUT), or the deadline; false at the deadline.
#pragma once

#include <poll.h>

#include "paceline/core/clock.hpp"

namespace paceline {

bool wait_for(int descriptor, short events, TimePoint deadline);

}  // namespace paceline
