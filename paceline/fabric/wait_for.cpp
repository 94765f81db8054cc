#include "paceline/fabric/wait_for.hpp"

#include <algorithm>
#include <cerrno>

#include "paceline/core/error.hpp"

namespace paceline {

bool wait_for(int descriptor, short events, TimePoint deadline) {
  const SteadyClock clock;
  for (;;) {
    int milliseconds = -1;
    if (deadline != kNever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now());
      milliseconds = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
    }
    pollfd entry{.fd = descriptor, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, milliseconds);
    if (ready > 0) return true;
    if (ready == 0 && clock.now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) throw system_error("cannot wait for a descriptor", errno);
  }
}

}  // namespace paceline
