// Trace: what a rank did when, for the picture of a run. A ring of the latest events; recording one costs a store.
// Owned by one thread. Times are the fabric's Clock, so that ranks of one host share an axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"

namespace paceline {

enum class Activity : std::uint8_t {
  load,         // waits for the next batch
  compute,      // forward and backward
  communicate,  // moves and reduces gradients
  wait,         // for other ranks
  update,       // the optimizer
  evaluate,
  save,
  reduction,  // a bucket under way, from its start to its end; overlaps the others
};
inline constexpr Activity kAllActivities[] = {Activity::load, Activity::compute,  Activity::communicate,
                                              Activity::wait, Activity::update,   Activity::evaluate,
                                              Activity::save, Activity::reduction};

constexpr std::string_view name(Activity activity) {
  switch (activity) {
    case Activity::load: return "load";
    case Activity::compute: return "compute";
    case Activity::communicate: return "communicate";
    case Activity::wait: return "wait";
    case Activity::update: return "update";
    case Activity::evaluate: return "evaluate";
    case Activity::save: return "save";
    case Activity::reduction: return "reduction";
  }
  return "?";
}

struct TraceEvent {
  TimePoint start;
  Duration length;
  std::int64_t step = 0;
  std::int32_t bucket = -1;  // -1: concerns no bucket
  Activity activity = Activity::compute;
};

class Trace {
 public:
  explicit Trace(std::size_t capacity) : capacity_(capacity) {}

  void add(const TraceEvent& event) {
    if (capacity_ == 0) return;
    if (ring_.size() < capacity_) {
      ring_.push_back(event);
    } else {
      ring_[next_ % capacity_] = event;
    }
    ++next_;
  }

  // The latest events, oldest first.
  std::vector<TraceEvent> events() const {
    if (ring_.size() < capacity_) return ring_;
    std::vector<TraceEvent> ordered;
    ordered.reserve(ring_.size());
    for (std::size_t i = 0; i < ring_.size(); ++i) ordered.push_back(ring_[(next_ + i) % capacity_]);
    return ordered;
  }

 private:
  const std::size_t capacity_;
  std::size_t next_ = 0;
  std::vector<TraceEvent> ring_;
};

// One rank's events, as they travel to whoever writes the file.
struct RankTrace {
  Rank rank = 0;
  std::string host;
  int pid = 0;
  std::vector<TraceEvent> events;
};

}  // namespace paceline
