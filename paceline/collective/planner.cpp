#include "paceline/collective/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

bool needs_mapping(Algorithm algorithm) { return algorithm == Algorithm::shm; }

schedules::Teams teams_of(const PlannerFacts& facts) {
  schedules::Teams hosts = schedules::teams_by_host(facts.hosts);
  if (hosts.size() > 1) return hosts;
  const int root = std::max(1, static_cast<int>(std::lround(std::sqrt(facts.ranks))));
  return schedules::consecutive_teams(facts.ranks, facts.team_width > 0 ? facts.team_width : root);
}

}  // namespace

Planner::Planner(const PlannerFacts& facts)
    : facts_(facts), teams_(teams_of(facts)), several_hosts_(schedules::teams_by_host(facts.hosts).size() > 1) {}

// naive and star are there to be compared with, ordered to be asked for. hierarchical needs something to be near to.
bool Planner::is_candidate(Collective op, Algorithm algorithm) const {
  if (algorithm == Algorithm::hierarchical) return several_hosts_ && static_cast<int>(teams_.size()) < facts_.ranks;
  if (op != Collective::allreduce) return true;
  return algorithm != Algorithm::naive && algorithm != Algorithm::star && algorithm != Algorithm::ordered;
}

// Host by host, so that a chain through all ranks enters every host once: the root's first, and the root at its head.
std::vector<int> Planner::order_from(int root) const {
  const auto is_home = [root](const std::vector<int>& team) {
    return std::find(team.begin(), team.end(), root) != team.end();
  };
  const auto home = std::find_if(teams_.begin(), teams_.end(), is_home);
  std::vector<int> order = {root};
  for (const int index : *home) {
    if (index != root) order.push_back(index);
  }
  for (auto team = teams_.begin(); team != teams_.end(); ++team) {
    if (team != home) order.insert(order.end(), team->begin(), team->end());
  }
  return order;
}

int Planner::position(const std::vector<int>& order, int index) const {
  return static_cast<int>(std::find(order.begin(), order.end(), index) - order.begin());
}

const std::vector<Algorithm>& algorithms_of(Collective op) {
  using A = Algorithm;
  static const std::vector<A> allreduce = {A::shm,  A::ring,    A::butterfly, A::halving_doubling, A::tree,
                                           A::star, A::ordered, A::naive,     A::hierarchical};
  static const std::vector<A> allgather = {A::shm, A::pairwise, A::ring, A::hierarchical};
  static const std::vector<A> broadcast = {A::shm, A::chain, A::tree, A::star, A::hierarchical};
  static const std::vector<A> reduce = {A::tree, A::star};
  static const std::vector<A> pairwise = {A::pairwise};
  static const std::vector<A> star = {A::star};
  static const std::vector<A> barrier = {A::dissemination};
  switch (op) {
    case Collective::allreduce: return allreduce;
    case Collective::allgather: return allgather;
    case Collective::broadcast: return broadcast;
    case Collective::reduce: return reduce;
    case Collective::gather:
    case Collective::scatter: return star;
    case Collective::barrier: return barrier;
    case Collective::allgatherv:
    case Collective::reduce_scatter:
    case Collective::alltoall:
    case Collective::alltoallv:
    case Collective::neighbour_exchange: return pairwise;
  }
  return pairwise;
}

Algorithm Planner::resolve(Collective op, Algorithm asked, std::size_t bytes) {
  const auto& known = algorithms_of(op);
  if (asked == Algorithm::automatic) return cheapest(op, bytes, facts_.mapped_memory);
  if (std::find(known.begin(), known.end(), asked) == known.end()) {
    std::string names;
    for (const Algorithm algorithm : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", name(algorithm));
    throw Error(Code::invalid, fmt::format("{} has no algorithm '{}'; it has {}", name(op), name(asked), names));
  }
  if (needs_mapping(asked) && !facts_.mapped_memory) {
    throw Error(Code::invalid, fmt::format("the {} algorithm needs all ranks on one host", name(asked)));
  }
  return asked;
}

Algorithm Planner::without_mapping(Collective op, std::size_t bytes) { return cheapest(op, bytes, false); }

Algorithm Planner::cheapest(Collective op, std::size_t bytes, bool mapped) {
  const int size_class = static_cast<int>(std::bit_width(bytes));
  Algorithm& best = choices_[static_cast<std::size_t>(op)][size_class][mapped ? 1 : 0];
  if (best != Algorithm::automatic) return best;
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm algorithm : algorithms_of(op)) {
    if (!is_candidate(op, algorithm) || (needs_mapping(algorithm) && !mapped)) continue;
    // Priced at the class's upper end for every size in it, so that the choice is one per class.
    const double cost = price_of(op, algorithm, std::ldexp(1.0, size_class));
    if (cost < least) {
      least = cost;
      best = algorithm;
    }
  }
  return best;
}

double Planner::price_of(Collective op, Algorithm algorithm, double bytes) const {
  return price(facts_.cost, {facts_.ranks, facts_.cores, facts_.hosts}, bytes,
               [&](int index) { return schedule_of(op, algorithm, 0, index); });
}

const Schedule& Planner::schedule(Collective op, Algorithm algorithm, int root) {
  auto& by_root = schedules_[static_cast<std::size_t>(op)][static_cast<std::size_t>(algorithm)];
  const auto index = static_cast<std::size_t>(root);
  if (by_root.size() <= index) by_root.resize(index + 1);
  if (by_root[index] == nullptr) {
    by_root[index] =
        std::make_unique<Schedule>(link_steps(schedule_of(op, algorithm, root, facts_.index), facts_.ranks));
  }
  return *by_root[index];
}

Schedule Planner::schedule_of(Collective op, Algorithm algorithm, int root, int index) const {
  namespace s = schedules;
  const int n = facts_.ranks;
  switch (op) {
    case Collective::allreduce:
      switch (algorithm) {
        case Algorithm::naive: return s::naive(n, index);
        case Algorithm::ring: {
          if (!several_hosts_) return s::ring(n, index);
          const auto order = order_from(0);
          return s::along(order, s::ring(n, position(order, index)));
        }
        case Algorithm::butterfly: return s::butterfly(n, index);
        case Algorithm::halving_doubling: return s::halving_doubling(n, index);
        case Algorithm::tree: return s::tree(n, index);
        case Algorithm::star: return s::star(n, index);
        case Algorithm::ordered: return s::ordered(n, index);
        case Algorithm::hierarchical: return s::hierarchical(teams_, index);
        default: return s::shm(n, index);
      }
    case Collective::reduce_scatter: return s::pairwise_reduce_scatter(n, index);
    case Collective::allgather:
      if (algorithm == Algorithm::shm) return s::shm_allgather(n, index);
      if (algorithm == Algorithm::hierarchical) return s::hierarchical_allgather(teams_, index);
      return algorithm == Algorithm::ring ? s::ring_allgather(n, index) : s::pairwise_allgather(n, index);
    case Collective::allgatherv: return s::pairwise_allgather(n, index);
    case Collective::broadcast:
      if (algorithm == Algorithm::shm) return s::shm_broadcast(n, index, root);
      if (algorithm == Algorithm::hierarchical) return s::hierarchical_broadcast(teams_, index, root);
      if (algorithm == Algorithm::chain && several_hosts_) {
        const auto order = order_from(root);
        return s::along(order, s::chain_broadcast(n, position(order, index), 0));
      }
      if (algorithm == Algorithm::chain) return s::chain_broadcast(n, index, root);
      return algorithm == Algorithm::star ? s::star_broadcast(n, index, root) : s::tree_broadcast(n, index, root);
    case Collective::reduce:
      return algorithm == Algorithm::star ? s::star_reduce(n, index, root) : s::tree_reduce(n, index, root);
    case Collective::gather: return s::star_gather(n, index, root);
    case Collective::scatter: return s::star_scatter(n, index, root);
    case Collective::alltoall:
    case Collective::alltoallv: return s::pairwise_alltoall(n, index);
    case Collective::barrier: return s::dissemination_barrier(n, index);
    case Collective::neighbour_exchange: break;
  }
  CHECK(false, "a neighbour exchange brings its own schedule");
}

}  // namespace paceline
