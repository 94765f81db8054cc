// A plan between sites and another inside them: Note [Sites] in data_parallel_state.hpp.
#include <fmt/format.h>

#include <utility>

#include "paceline/torch/data_parallel_state.hpp"

namespace paceline {

std::optional<Sites> DataParallel::State::find_sites(const Group& group) const {
  const BetweenSites& asked = options_.between_sites;
  if (asked.plan.empty()) return std::nullopt;
  check_between_sites(plan_, parse_plan(asked.plan), options_.mixing);
  std::vector<int> places = asked.site_of;
  if (places.empty()) {
    const std::vector<int>& hosts = endpoint_.facts().hosts;
    for (const Rank rank : group.ranks()) places.push_back(hosts.at(static_cast<std::size_t>(rank)));
  }
  if (places.size() != static_cast<std::size_t>(group.size()))
    throw Error(Code::invalid, fmt::format("between_sites.site_of has {} numbers for the {} ranks of the group; give "
                                           "one for each, or none",
                                           places.size(), group.size()));
  return make_sites(places);
}

// A collective call.
std::optional<Communicator> DataParallel::State::own_site() {
  if (!sites_) return std::nullopt;
  return all_.split(sites_->of_rank[static_cast<std::size_t>(all_.rank())], all_.rank());
}

// The site's group breaks with that of all, so that everybody learns of it.
void DataParallel::State::give_up(const std::string& reason, int rank) {
  all_.give_up(reason, all_.group().index_of(communicator_.group().at(rank)));
}

}  // namespace paceline
