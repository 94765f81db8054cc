// TraceExcerpt: the few steps of a trace that the report shows.
#pragma once

#include <vector>

#include "paceline/core/trace.hpp"

namespace paceline {

struct TraceExcerpt {
  TimePoint start{}, end{};
  std::vector<RankTrace> ranks;  // events within, cut at its edges, by their start
};

// Four steps that took as long as four steps usually do, of all ranks on one axis; fewer where the events are many.
// Measured at the first rank that has events. Empty when none has.
TraceExcerpt typical_stretch(const std::vector<RankTrace>& ranks);

}  // namespace paceline
