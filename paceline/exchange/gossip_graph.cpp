#include "paceline/exchange/gossip_graph.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

// At a distance in both directions; one rank if it is the same in both.
std::vector<int> at_distance(int ranks, int rank, int distance) {
  const int after = (rank + distance) % ranks;
  const int before = (rank - distance + ranks) % ranks;
  if (after == rank) return {};
  if (after == before) return {after};
  return {before, after};
}

// 1, 2, 4 … up to half of the ranks: farther ones are nearer in the other direction.
std::vector<int> exponential_distances(int ranks) {
  std::vector<int> distances = {1};
  while (2 * distances.back() <= ranks / 2) distances.push_back(2 * distances.back());
  return distances;
}

// Fisher & Yates' shuffle; those that lie side by side are partners.
std::vector<int> partner_of_the_draw(const GossipStep& step, int rank) {
  std::vector<int> order(static_cast<std::size_t>(step.ranks));
  std::iota(order.begin(), order.end(), 0);
  Random random(step.seed, static_cast<std::uint64_t>(step.step));
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  const auto place = static_cast<std::size_t>(std::find(order.begin(), order.end(), rank) - order.begin());
  const std::size_t other = place ^ 1;
  if (other >= order.size()) return {};
  return {order[other]};
}

}  // namespace

std::vector<int> gossip_neighbours(const GossipStep& step, int rank) {
  switch (step.graph) {
    case GossipGraph::ring: return at_distance(step.ranks, rank, 1);
    case GossipGraph::exponential: {
      const std::vector<int> distances = exponential_distances(step.ranks);
      return at_distance(step.ranks, rank, distances[static_cast<std::size_t>(step.step) % distances.size()]);
    }
    case GossipGraph::random: return partner_of_the_draw(step, rank);
  }
  return {};
}

int gossip_partner(GossipGraph graph, int ranks, int rank, std::uint64_t draw) {
  if (ranks == 1) return -1;
  if (graph == GossipGraph::random) {
    const int other = static_cast<int>(draw % static_cast<std::uint64_t>(ranks - 1));
    return other < rank ? other : other + 1;
  }
  std::vector<int> all;
  const std::vector<int> distances = graph == GossipGraph::ring ? std::vector<int>{1} : exponential_distances(ranks);
  for (const int distance : distances) {
    const std::vector<int> found = at_distance(ranks, rank, distance);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all[draw % all.size()];
}

}  // namespace paceline
