// Gossip graphs: with whom a rank mixes its parameters after which step. Pure functions; every rank computes the same
// answer. A rank and its neighbours count alike, each by 1 / (neighbours + 1). All graphs are mutual, and in each step
// either all ranks have as many neighbours, or each has one or none: the mixing matrix is symmetric, its rows and
// columns add up to one (doubly stochastic), and the mean over the ranks stays what it is.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline {

enum class GossipGraph {
  ring,         // the ranks before and after (Lian et al. 2017): contracts slowly where there are many ranks
  exponential,  // those 1, 2, 4 … before and after, another distance in each step (Assran et al. 2019; Ying et al.
                // 2021)
  random,       // one partner, drawn anew in each step (Boyd et al. 2006)
};
inline constexpr GossipGraph kAllGossipGraphs[] = {GossipGraph::ring, GossipGraph::exponential, GossipGraph::random};

constexpr std::string_view name(GossipGraph graph) {
  switch (graph) {
    case GossipGraph::ring: return "ring";
    case GossipGraph::exponential: return "exponential";
    case GossipGraph::random: return "random";
  }
  return "?";
}

// When all ranks mix in every step.
struct GossipStep {
  GossipGraph graph = GossipGraph::exponential;
  int ranks = 1;
  std::int64_t step = 0;
  std::uint64_t seed = 1;
};
std::vector<int> gossip_neighbours(const GossipStep& step, int rank);

// When a rank mixes with one other at its own time: any of the graph's neighbours, by `draw`, a random number. -1: a
// lone rank has none.
int gossip_partner(GossipGraph graph, int ranks, int rank, std::uint64_t draw);

}  // namespace paceline
