// The links between the ranks of a job: which of them are measured, in which order, and how.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "paceline/cli/doctor_report.hpp"
#include "paceline/core/clock.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

using RankPair = std::pair<int, int>;  // the first one leads

struct LinkPlan {
  std::vector<std::vector<RankPair>> rounds;  // one after the other; the pairs of one round at the same time
  bool every_pair = true;
};
// `hosts` by rank. Every pair, one after the other, in a small job. In a larger one the first rank of each host with
// that of each other, and some neighbours inside the hosts; between many hosts, those pairs that share none at once.
LinkPlan plan_links(const std::vector<int>& hosts);

// Pairs that look much slower than their like, beside or far from each other: to be measured once more, because a busy
// host may have slept through its measurement. Not more than a few.
std::vector<RankPair> doubtful_pairs(const std::vector<LinkReport>& links, const std::vector<int>& hosts);

struct LinkTiming {
  double latency_us = 0;   // half a round trip
  double there = 0;        // GB/s from the one who leads,
  double back = 0;         // and to it
  double clock_ahead = 0;  // seconds that the other's wall clock is ahead,
  double clock_error = 0;  // give or take
};

// About a tenth of a second, more where it takes longer to get a few messages through. Called by both ranks of a pair;
// what comes back is for the one who leads. Throws Error: the peer is gone.
LinkTiming measure_link(Endpoint& endpoint, Rank peer, bool leads);

// When so many bytes had arrived.
struct LinkArrival {
  TimePoint when;
  std::size_t bytes = 0;
};
// GB/s of a stream that began at `start`, without its beginning, in which buffers fill and the buckets of traffic
// shapers empty.
double steady_rate(TimePoint start, const std::vector<LinkArrival>& arrivals);

}  // namespace paceline
