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

Places places_of(const PlannerFacts& facts) {
  schedules::Teams hosts = schedules::teams_by_host(facts.hosts);
  if (hosts.size() > 1) return {facts.ranks, std::move(hosts), true};
  const int root = std::max(1, static_cast<int>(std::lround(std::sqrt(facts.ranks))));
  const int width = facts.team_width > 0 ? facts.team_width : root;
  return {facts.ranks, schedules::consecutive_teams(facts.ranks, width), false};
}

}  // namespace

Planner::Planner(const PlannerFacts& facts) : facts_(facts), places_(places_of(facts)) {}

bool Planner::is_candidate(const Way& way, bool mapped) const {
  if (needs_mapping(way.algorithm) && !mapped) return false;
  switch (way.chosen) {
    case Way::Chosen::always: return true;
    case Way::Chosen::among_near_and_far:
      return places_.several_hosts && static_cast<int>(places_.teams.size()) < facts_.ranks;
    case Way::Chosen::never: return false;
  }
  return false;
}

Algorithm Planner::resolve(Collective op, Algorithm asked, std::size_t bytes) {
  if (asked == Algorithm::automatic) return cheapest(op, bytes, facts_.mapped_memory);
  if (find_way(op, asked) == nullptr) {
    std::string names;
    for (const Algorithm algorithm : algorithms_of(op))
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name(algorithm));
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
  for (const Way& way : catalogue()) {
    if (way.op != op || !is_candidate(way, mapped)) continue;
    // Priced at the class's upper end for every size in it, so that the choice is one per class.
    const double cost = price_of(op, way.algorithm, std::ldexp(1.0, size_class));
    if (cost < least) {
      least = cost;
      best = way.algorithm;
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
  const Way* way = find_way(op, algorithm);
  CHECK(way != nullptr, "resolve() has let the algorithm pass");
  return way->make(places_, root, index);
}

}  // namespace paceline
