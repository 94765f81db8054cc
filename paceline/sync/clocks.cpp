#include "paceline/sync/clocks.hpp"

#include <algorithm>

#include "paceline/core/check.hpp"

namespace paceline {

Clocks::Clocks(int workers)
    : clocks_(static_cast<std::size_t>(workers)),
      active_(static_cast<std::size_t>(workers), true),
      at_slowest_(workers) {
  CHECK(workers >= 1, "clocks are of at least one worker");
}

bool Clocks::advance(int worker, std::int64_t clock) {
  const std::int64_t known = at(worker);
  if (!active(worker) || clock <= known) return false;
  clocks_[static_cast<std::size_t>(worker)] = clock;
  return known == slowest_ && one_less();
}

bool Clocks::leave(int worker) {
  if (!active(worker)) return false;
  active_[static_cast<std::size_t>(worker)] = false;
  return at(worker) == slowest_ && one_less();
}

std::int64_t Clocks::fastest() const { return *std::max_element(clocks_.begin(), clocks_.end()); }

bool Clocks::one_less() {
  if (--at_slowest_ > 0) return false;
  const std::int64_t before = slowest_;
  slowest_ = fastest();
  for (int worker = 0; worker < workers(); ++worker) {
    if (active(worker)) slowest_ = std::min(slowest_, at(worker));
  }
  for (int worker = 0; worker < workers(); ++worker) at_slowest_ += active(worker) && at(worker) == slowest_;
  return slowest_ > before;
}

}  // namespace paceline
