// The trace as a file in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/trace.hpp"

namespace paceline {

// One process per rank; its track "step" shows what the rank did, its tracks "buckets" the reductions under way. Times
// count from the earliest event of all ranks, so that clocks of different hosts must have been aligned before.
// Streams to `path`.part and renames it at the end. Error{system} names the file that cannot be written.
void write_trace(const std::string& path, const std::vector<RankTrace>& ranks);

}  // namespace paceline
