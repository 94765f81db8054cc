// stream_copy: a copy that goes past the caches, for results that are too large to be found there by whoever reads
// them. It saves reading the target's lines before they are overwritten: a third of the traffic. finish_streams()
// before others are told.
#pragma once

#include <cstddef>

namespace paceline {

void stream_copy(float* into, const float* from, std::size_t count);
void finish_streams();

}  // namespace paceline
