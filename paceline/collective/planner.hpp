// Planner: which schedule an operation takes, by what was asked for or by the cost model, and the schedules themselves,
// made once per group. Depends only on what all ranks know alike, so that all choose alike.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "paceline/collective/catalogue.hpp"
#include "paceline/collective/cost.hpp"

namespace paceline {

struct PlannerFacts {
  int ranks = 1;
  int index = 0;
  int cores = 1;  // of a host
  bool mapped_memory = false;
  std::vector<int> hosts = {};  // by index; empty: all on one
  int team_width = 0;           // for `hierarchical` on one host
  CostModel cost = {};
};

class Planner {
 public:
  explicit Planner(const PlannerFacts& facts);

  bool several_hosts() const { return places_.several_hosts; }
  bool maps_memory() const { return facts_.mapped_memory; }

  // `automatic` resolved for this operation and size. Throws Error{invalid} for an algorithm that the operation does
  // not have, naming those it has.
  Algorithm resolve(Collective op, Algorithm asked, std::size_t bytes);
  // The algorithm to fall back to from one that needs mapped memory.
  Algorithm without_mapping(Collective op, std::size_t bytes);
  // Seconds by the cost model, for root 0.
  double price_of(Collective op, Algorithm algorithm, double bytes) const;
  const Schedule& schedule(Collective op, Algorithm algorithm, int root);
  // What any rank of the group does; without waits.
  Schedule schedule_of(Collective op, Algorithm algorithm, int root, int index) const;

 private:
  Algorithm cheapest(Collective op, std::size_t bytes, bool mapped);
  bool is_candidate(const Way& way, bool mapped) const;

  const PlannerFacts facts_;
  const Places places_;
  // Tables, not maps: both are looked into by every operation. `automatic` and nullptr: not made yet.
  static constexpr std::size_t kOps = static_cast<std::size_t>(kLastCollective) + 1;
  static constexpr std::size_t kAlgorithms = static_cast<std::size_t>(kLastAlgorithm) + 1;
  static constexpr std::size_t kSizeClasses = 65;  // log2 of the bytes
  Algorithm choices_[kOps][kSizeClasses][2] = {};
  std::vector<std::unique_ptr<Schedule>> schedules_[kOps][kAlgorithms];  // by root
};

}  // namespace paceline
