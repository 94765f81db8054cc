// Schedules that know which ranks are near each other: what crosses from team to team, from host to host, is the least
// that the operation needs.
#include <algorithm>

#include "paceline/collective/schedules.hpp"

namespace paceline::schedules {
namespace {

struct Place {
  int team = 0;
  int member = 0;
};

Place place_of(const Teams& teams, int rank) {
  for (std::size_t team = 0; team < teams.size(); ++team) {
    const auto found = std::find(teams[team].begin(), teams[team].end(), rank);
    if (found != teams[team].end()) return {static_cast<int>(team), static_cast<int>(found - teams[team].begin())};
  }
  return {};
}

// Members with the same number in all teams form a lane, each of which carries its part between the teams; so the
// smallest team says how many lanes there are.
int lanes_of(const Teams& teams) {
  const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  return static_cast<int>(std::min_element(teams.begin(), teams.end(), smaller)->size());
}

int at(const std::vector<int>& ranks, int index) { return ranks[static_cast<std::size_t>(index)]; }
const std::vector<int>& at(const Teams& teams, int index) { return teams[static_cast<std::size_t>(index)]; }

}  // namespace

Schedule along(const std::vector<int>& order, Schedule schedule) {
  for (Step& step : schedule.steps) {
    if (step.peer >= 0) step.peer = at(order, step.peer);
  }
  return schedule;
}

Teams consecutive_teams(int n, int width) {
  Teams teams;
  for (int rank = 0; rank < n; ++rank) {
    if (rank % width == 0) teams.emplace_back();
    teams.back().push_back(rank);
  }
  return teams;
}

Teams teams_by_host(const std::vector<int>& hosts) {
  Teams teams;
  std::vector<int> known;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto found = std::find(known.begin(), known.end(), hosts[rank]);
    const auto team = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(hosts[rank]);
      teams.emplace_back();
    }
    teams[team].push_back(static_cast<int>(rank));
  }
  return teams;
}

// Reduce-scatter inside each team, the ring of each lane between the teams, allgather inside each team. What leaves a
// team is 2S(t-1)/t for t teams, whatever its size. Brackets differently from `ordered`, so the last bits may differ
// from it.
Schedule hierarchical(const Teams& teams, int rank) {
  const Place self = place_of(teams, rank);
  const std::vector<int>& team = at(teams, self.team);
  const int members = static_cast<int>(team.size()), crossings = static_cast<int>(teams.size());
  const int lanes = lanes_of(teams);
  const bool carries = self.member < lanes;
  Schedule s{.blocks = lanes * crossings};
  const auto slice = [&](int lane) { return output(lane * crossings, crossings); };

  // Starting with the next member, so that not all send to the first at a time; and all that can leave at once before
  // anything that waits.
  for (int hop = 1; hop < members; ++hop) {
    const int to = (self.member + hop) % members;
    if (to < lanes) s.send(at(team, to), slice(to));
  }
  for (int hop = 1; hop < members && carries; ++hop) {
    s.reduce(at(team, (self.member + members - hop) % members), slice(self.member));
  }
  if (carries) {
    for (Step step : ring(crossings, self.team).steps) {
      if (step.peer >= 0) step.peer = at(at(teams, step.peer), self.member);
      step.what.first += slice(self.member).first;
      s.steps.push_back(step);
    }
  }
  for (int hop = 1; hop < members && carries; ++hop) {
    s.send(at(team, (self.member + hop) % members), slice(self.member));
  }
  for (int hop = 1; hop < members; ++hop) {
    const int from = (self.member + members - hop) % members;
    if (from < lanes) s.receive(at(team, from), slice(from));
  }
  return s;
}

// Every rank's block to its team; each lane's blocks from team to team, once; and on inside each team.
Schedule hierarchical_allgather(const Teams& teams, int rank) {
  const Place self = place_of(teams, rank);
  const std::vector<int>& team = at(teams, self.team);
  const int members = static_cast<int>(team.size()), crossings = static_cast<int>(teams.size());
  const int lanes = lanes_of(teams);
  int n = 0;
  for (const auto& one : teams) n += static_cast<int>(one.size());
  Schedule s{.blocks = n};
  // Those of a team whose blocks a lane carries.
  const auto for_each_carried = [&](int of_team, int lane, const auto& action) {
    const std::vector<int>& ranks = at(teams, of_team);
    for (int member = lane; member < static_cast<int>(ranks.size()); member += lanes) action(at(ranks, member));
  };

  for (int hop = 1; hop < members; ++hop) {
    s.send(at(team, (self.member + hop) % members), output(rank));
    const int from = at(team, (self.member + members - hop) % members);
    s.receive(from, output(from));
  }
  for (int hop = 1; hop < crossings; ++hop) {
    const int to = (self.team + hop) % crossings, from = (self.team + crossings - hop) % crossings;
    if (self.member < lanes) {
      const int peer_to = at(at(teams, to), self.member), peer_from = at(at(teams, from), self.member);
      for_each_carried(self.team, self.member, [&](int block) { s.send(peer_to, output(block)); });
      for_each_carried(from, self.member, [&](int block) { s.receive(peer_from, output(block)); });
    }
  }
  for (int hop = 1; hop < crossings; ++hop) {
    const int from = (self.team + crossings - hop) % crossings;
    for (int step = 1; step < members; ++step) {
      const int to = (self.member + step) % members, lane = (self.member + members - step) % members;
      if (self.member < lanes)
        for_each_carried(from, self.member, [&](int block) { s.send(at(team, to), output(block)); });
      if (lane < lanes) for_each_carried(from, lane, [&](int block) { s.receive(at(team, lane), output(block)); });
    }
  }
  return s;
}

// A tree of the teams' first members (the root for its own), then one in each team: every team is entered once.
Schedule hierarchical_broadcast(const Teams& teams, int rank, int root) {
  const Place self = place_of(teams, rank), source = place_of(teams, root);
  const std::vector<int>& team = at(teams, self.team);
  const int head = self.team == source.team ? source.member : 0;
  Schedule s;
  if (self.member == head) {
    std::vector<int> heads;
    for (int one = 0; one < static_cast<int>(teams.size()); ++one) {
      heads.push_back(one == source.team ? root : at(teams, one).front());
    }
    s = along(heads, tree_broadcast(static_cast<int>(teams.size()), self.team, source.team));
  }
  const Schedule inside = along(team, tree_broadcast(static_cast<int>(team.size()), self.member, head));
  s.steps.insert(s.steps.end(), inside.steps.begin(), inside.steps.end());
  return s;
}

}  // namespace paceline::schedules
