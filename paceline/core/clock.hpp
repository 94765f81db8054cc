// Clock: where paceline's layers read the time. The steady clock of the machine in production, virtual time in the
// sim fabric; code above fabric never asks the system for the time itself.
#pragma once

#include <chrono>

namespace paceline {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
inline constexpr TimePoint kNever = TimePoint::max();

// Thread-safe. A point in time far in the future saturates at kNever.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;

  TimePoint after(Duration span) const {
    const TimePoint start = now();
    return span >= kNever - start ? kNever : start + span;
  }
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

inline double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace paceline
