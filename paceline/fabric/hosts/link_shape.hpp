// LinkShape: a network to be imitated, as `--link 100Mbit/s,5ms` says it.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/clock.hpp"

namespace paceline {

struct LinkShape {
  double bytes_per_second = 0;  // of a host's link, each way; 0: as fast as it goes
  Duration latency{};           // one way, added to that of the real network
  std::string text = {};        // as it was given; empty: no shape

  bool shapes() const { return !text.empty(); }
  Duration time_for(std::size_t bytes) const {
    if (bytes_per_second <= 0) return Duration(0);
    return Duration(static_cast<Duration::rep>(static_cast<double>(bytes) / bytes_per_second * 1e9));
  }
};

// A rate (bit/s, B/s, with k, M or G before), a latency (us, ms, s), or both with a comma. Error{invalid}.
LinkShape parse_link(std::string_view text);

}  // namespace paceline
