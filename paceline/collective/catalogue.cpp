#include "paceline/collective/catalogue.hpp"

#include <algorithm>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

namespace s = schedules;

// Host by host, so that a chain through all ranks enters every host once: the root's first, and the root at its head.
std::vector<int> order_from(const Places& places, int root) {
  const auto is_home = [root](const std::vector<int>& team) {
    return std::find(team.begin(), team.end(), root) != team.end();
  };
  const auto home = std::find_if(places.teams.begin(), places.teams.end(), is_home);
  std::vector<int> order = {root};
  for (const int index : *home) {
    if (index != root) order.push_back(index);
  }
  for (auto team = places.teams.begin(); team != places.teams.end(); ++team) {
    if (team != home) order.insert(order.end(), team->begin(), team->end());
  }
  return order;
}

// A generator whose neighbours are one after the other, with the ranks of a host beside each other.
template <class Make>
Schedule host_by_host(const Places& places, int first, int index, const Make& make) {
  const std::vector<int> order = order_from(places, first);
  const auto position = std::find(order.begin(), order.end(), index) - order.begin();
  return s::along(order, make(static_cast<int>(position)));
}

Schedule ring(const Places& places, int, int index) {
  if (!places.several_hosts) return s::ring(places.ranks, index);
  return host_by_host(places, 0, index, [&](int position) { return s::ring(places.ranks, position); });
}

Schedule chain_broadcast(const Places& places, int root, int index) {
  if (!places.several_hosts) return s::chain_broadcast(places.ranks, index, root);
  return host_by_host(places, root, index, [&](int position) { return s::chain_broadcast(places.ranks, position, 0); });
}

Schedule brought_by_the_caller(const Places&, int, int) {
  CHECK(false, "a neighbour exchange brings its own schedule");
}

// From a generator's own parameters to those of a Way.
template <Schedule (*make)(int n, int index)>
Schedule of_size(const Places& places, int, int index) {
  return make(places.ranks, index);
}
template <Schedule (*make)(int n, int index, int root)>
Schedule from_root(const Places& places, int root, int index) {
  return make(places.ranks, index, root);
}
template <Schedule (*make)(const s::Teams& teams, int index)>
Schedule of_teams(const Places& places, int, int index) {
  return make(places.teams, index);
}
template <Schedule (*make)(const s::Teams& teams, int index, int root)>
Schedule of_teams_from_root(const Places& places, int root, int index) {
  return make(places.teams, index, root);
}

using A = Algorithm;
using C = Collective;
constexpr auto always = Way::Chosen::always;
constexpr auto near_and_far = Way::Chosen::among_near_and_far;
constexpr auto never = Way::Chosen::never;

constexpr Way kCatalogue[] = {
    {C::allreduce, A::shm, always, of_size<s::shm>},
    {C::allreduce, A::ring, always, ring},
    {C::allreduce, A::butterfly, always, of_size<s::butterfly>},
    {C::allreduce, A::halving_doubling, always, of_size<s::halving_doubling>},
    {C::allreduce, A::tree, always, of_size<s::tree>},
    {C::allreduce, A::star, never, of_size<s::star>},
    {C::allreduce, A::ordered, never, of_size<s::ordered>},
    {C::allreduce, A::naive, never, of_size<s::naive>},
    {C::allreduce, A::hierarchical, near_and_far, of_teams<s::hierarchical>},
    {C::reduce_scatter, A::pairwise, always, of_size<s::pairwise_reduce_scatter>},
    {C::allgather, A::shm, always, of_size<s::shm_allgather>},
    {C::allgather, A::pairwise, always, of_size<s::pairwise_allgather>},
    {C::allgather, A::ring, always, of_size<s::ring_allgather>},
    {C::allgather, A::hierarchical, near_and_far, of_teams<s::hierarchical_allgather>},
    {C::allgatherv, A::pairwise, always, of_size<s::pairwise_allgather>},
    {C::broadcast, A::shm, always, from_root<s::shm_broadcast>},
    {C::broadcast, A::chain, always, chain_broadcast},
    {C::broadcast, A::tree, always, from_root<s::tree_broadcast>},
    {C::broadcast, A::star, always, from_root<s::star_broadcast>},
    {C::broadcast, A::hierarchical, near_and_far, of_teams_from_root<s::hierarchical_broadcast>},
    {C::reduce, A::tree, always, from_root<s::tree_reduce>},
    {C::reduce, A::star, always, from_root<s::star_reduce>},
    {C::gather, A::star, always, from_root<s::star_gather>},
    {C::scatter, A::star, always, from_root<s::star_scatter>},
    {C::alltoall, A::pairwise, always, of_size<s::pairwise_alltoall>},
    {C::alltoallv, A::pairwise, always, of_size<s::pairwise_alltoall>},
    {C::barrier, A::dissemination, always, of_size<s::dissemination_barrier>},
    {C::neighbour_exchange, A::pairwise, always, brought_by_the_caller},
};

}  // namespace

std::span<const Way> catalogue() { return kCatalogue; }

const Way* find_way(Collective op, Algorithm algorithm) {
  const auto found = std::find_if(std::begin(kCatalogue), std::end(kCatalogue),
                                  [&](const Way& way) { return way.op == op && way.algorithm == algorithm; });
  return found == std::end(kCatalogue) ? nullptr : found;
}

std::vector<Algorithm> algorithms_of(Collective op) {
  std::vector<Algorithm> found;
  for (const Way& way : kCatalogue) {
    if (way.op == op) found.push_back(way.algorithm);
  }
  return found;
}

}  // namespace paceline
