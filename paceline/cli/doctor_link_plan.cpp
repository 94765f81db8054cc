#include <algorithm>
#include <map>
#include <set>

#include "paceline/cli/doctor_links.hpp"
#include "paceline/cli/measure.hpp"

namespace paceline {
namespace {

// A pair takes a tenth of a second, and nobody wants to wait for more than a few.
constexpr std::size_t kAllRanksUpTo = 6;
constexpr std::size_t kHostsInTurnUpTo = 8;
constexpr std::size_t kInsideAHost = 8;
constexpr std::size_t kMostRepeated = 16;
constexpr double kDoubtful = 0.5;  // of the median

using Rounds = std::vector<std::vector<RankPair>>;

void one_after_the_other(const std::vector<int>& ranks, Rounds& rounds) {
  for (std::size_t a = 0; a < ranks.size(); ++a) {
    for (std::size_t b = a + 1; b < ranks.size(); ++b) rounds.push_back({{ranks[a], ranks[b]}});
  }
}

// The circle method for tournaments (Kirkman 1847): the first stays, the others move on by one seat per round, and
// whoever faces whom meets. n - 1 rounds, or n if that is odd: then one seat is empty.
void as_a_tournament(std::vector<int> ranks, Rounds& rounds) {
  constexpr int kNobody = -1;
  if (ranks.size() % 2 == 1) ranks.push_back(kNobody);
  const std::size_t seats = ranks.size();
  for (std::size_t round = 0; round + 1 < seats; ++round) {
    auto& pairs = rounds.emplace_back();
    for (std::size_t i = 0; i < seats / 2; ++i) {
      const auto [a, b] = std::minmax(ranks[i], ranks[seats - 1 - i]);
      if (a != kNobody) pairs.emplace_back(a, b);
    }
    std::rotate(ranks.begin() + 1, ranks.end() - 1, ranks.end());
  }
}

void neighbours(const std::map<int, std::vector<int>>& by_host, Rounds& rounds) {
  for (std::size_t at = 0; at < kInsideAHost; ++at) {
    std::vector<RankPair> round;
    for (const auto& [host, ranks] : by_host) {
      if (at + 1 < ranks.size()) round.emplace_back(ranks[at], ranks[at + 1]);
    }
    if (!round.empty()) rounds.push_back(round);
  }
}

}  // namespace

LinkPlan plan_links(const std::vector<int>& hosts) {
  LinkPlan plan;
  std::vector<int> all, firsts;
  std::map<int, std::vector<int>> by_host;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    all.push_back(static_cast<int>(rank));
    by_host[hosts[rank]].push_back(static_cast<int>(rank));
  }
  for (const auto& [host, ranks] : by_host) firsts.push_back(ranks.front());
  std::sort(firsts.begin(), firsts.end());
  plan.every_pair = all.size() <= kAllRanksUpTo || firsts.size() == all.size();
  if (all.size() <= kAllRanksUpTo) {
    one_after_the_other(all, plan.rounds);
    return plan;
  }
  firsts.size() <= kHostsInTurnUpTo ? one_after_the_other(firsts, plan.rounds) : as_a_tournament(firsts, plan.rounds);
  neighbours(by_host, plan.rounds);
  return plan;
}

std::vector<RankPair> doubtful_pairs(const std::vector<LinkReport>& links, const std::vector<int>& hosts) {
  const auto beside = [&](const LinkReport& link) {
    return hosts[static_cast<std::size_t>(link.from)] == hosts[static_cast<std::size_t>(link.to)];
  };
  std::vector<double> rates[2];
  for (const LinkReport& link : links) rates[beside(link)].push_back(link.gbps);
  std::set<RankPair> slow;
  for (const LinkReport& link : links) {
    const std::vector<double>& peers = rates[beside(link)];
    if (link.gbps < kDoubtful * median(peers)) slow.insert(std::minmax(link.from, link.to));
  }
  std::vector<RankPair> pairs(slow.begin(), slow.end());
  if (pairs.size() > kMostRepeated) pairs.resize(kMostRepeated);
  return pairs;
}

}  // namespace paceline
