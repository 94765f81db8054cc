// Clock: where paceline's layers read the time. The steady clock of the machine in production, virtual time in the
// sim fabric; code above fabric never asks the system for the time itself.
#pragma once

#include <time.h>

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
  // The same time, some milliseconds behind, for a fifth of the price.
  virtual TimePoint coarse_now() const { return now(); }

  TimePoint after(Duration span) const {
    const TimePoint start = now();
    return span >= kNever - start ? kNever : start + span;
  }
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  TimePoint coarse_now() const override {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

// As system calls want it.
inline timespec time_left(TimePoint until, TimePoint now) {
  const auto left = until > now ? until - now : Duration(0);
  return {.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000), .tv_nsec = left.count() % 1'000'000'000};
}

inline double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace paceline
