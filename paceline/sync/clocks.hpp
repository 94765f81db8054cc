// Clocks: how many steps each worker has ended, and the least of it among those that are still active. A value of one
// owner, which is whoever decides by it, a server for instance.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace paceline {

class Clocks {
 public:
  // All workers, numbered from 0, are active and at clock 0. At least one.
  explicit Clocks(int workers);

  // The worker has ended `clock` steps. One that is not above what is known, a message that came twice for instance, or
  // one of a worker that has left, changes nothing. True if slowest() rose.
  // Looks at all workers when the last of the slowest moves on: once in as many calls where they keep step.
  bool advance(int worker, std::int64_t clock);
  // The worker holds up nobody any more; its clock stays. True if slowest() rose.
  bool leave(int worker);

  int workers() const { return static_cast<int>(clocks_.size()); }
  bool active(int worker) const { return active_.at(static_cast<std::size_t>(worker)); }
  std::int64_t at(int worker) const { return clocks_.at(static_cast<std::size_t>(worker)); }
  // The least clock of the active workers; when all have left, the greatest that any has reached.
  std::int64_t slowest() const { return slowest_; }
  // The greatest clock that any worker has reached, active or not.
  std::int64_t fastest() const;

  auto operator<=>(const Clocks&) const = default;

 private:
  // An active worker that was among the slowest no longer is. True if slowest() rose.
  bool one_less();

  std::vector<std::int64_t> clocks_;
  std::vector<bool> active_;
  std::int64_t slowest_ = 0;
  int at_slowest_;  // how many active workers have that clock
};

}  // namespace paceline
