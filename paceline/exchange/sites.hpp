// Sites: which ranks of a group are near each other. Inside a site the network is quick, between sites it is slow, and
// another plan is followed there (SiteMixer).
//
//   const Sites sites = parse_sites("2", hosts, names);        // two, of as many hosts each
//   check_between_sites(plan, parse_plan("when=local:16"));    // throws if the plans do not go together
//
// A value. Functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/exchange/plan.hpp"

namespace paceline {

struct MixChoices;

struct Sites {
  // Of each rank, by its index in the group; numbered from 0 in the order of their first ranks.
  std::vector<int> of_rank = {};

  int count() const;
  int workers_of(int site) const;
  // The rank that speaks for its site with the others.
  int first_of(int site) const;
  bool is_first(int rank) const { return first_of(of_rank[static_cast<std::size_t>(rank)]) == rank; }
  // "2 sites of 2 workers", "3 sites of 2 + 1 + 1 workers"
  std::string text() const;
};

// From any numbers or names that are the same on ranks of one site. Throws Error{invalid} unless there are two or more.
Sites make_sites(std::span<const int> of_rank);

// `hosts` and their `names`: of each rank; the same number means the same host.
//   ""        each host is a site
//   "2"       so many sites, each of as many consecutive hosts
//   "a,b/c"   hosts by their names
// Throws Error{invalid}.
Sites parse_sites(std::string_view words, std::span<const int> hosts, std::span<const std::string> names);
// What can be wrong with the words alone: Error{invalid}.
void check_sites(std::string_view words);

// Throws Error{invalid} unless `inside` can be followed inside sites, `between` between them, and the choices made for
// it.
void check_between_sites(const Plan& inside, const Plan& between);
void check_between_sites(const Plan& inside, const Plan& between, const MixChoices& choices);

}  // namespace paceline
