// How the members that are left after a failure agree on who they are.
//
// Each puts up its vote: the set of members it believes alive. When all members of my set have voted for the same set,
// I commit it; when anybody whom I believe alive has committed a set, I commit that one too. A death changes my vote,
// which is put up anew. Two ranks cannot commit different sets: whoever commits S has seen every member of S vote for
// S; a rank that voted otherwise later believes some member dead, and before it can commit another set it must see that
// set's votes from ranks that have already committed S, which it does not, so it follows them. The death of a committer
// that nobody else has seen commit changes nothing that anybody could notice.
//
// That needs that no live rank is taken for dead. Between hosts it can be: one that does not answer may live on, with
// others around it. So where somebody cannot be reached, only a majority of those who may live goes on, or the half
// that has the first of them: of two sides of a cut network, one at most.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/collective/communicator_state.hpp"

namespace paceline {
namespace {

std::vector<Rank> members_of(const Group& group, const std::vector<bool>& alive) {
  std::vector<Rank> ranks;
  for (int index = 0; index < group.size(); ++index) {
    if (alive[static_cast<std::size_t>(index)]) ranks.push_back(group.at(index));
  }
  return ranks;
}

// Nobody I believe alive votes otherwise, or somebody has committed already: the set to commit.
std::optional<std::vector<bool>> decision(const Endpoint& endpoint, const Bulletin& bulletin, const Group& group,
                                          const std::vector<bool>& alive) {
  bool unanimous = true;
  for (int index = 0; index < group.size(); ++index) {
    const Rank peer = group.at(index);
    if (!alive[static_cast<std::size_t>(index)] || peer == endpoint.rank()) continue;
    const auto vote = bulletin.vote_of(peer, group.context(), alive.size());
    if (vote && vote->committed) return vote->alive;
    unanimous &= vote && vote->alive == alive;
  }
  return unanimous ? std::optional(alive) : std::nullopt;
}

// See above. `left` is who would go on.
void demand_majority(const Endpoint& endpoint, const Group& group, const std::vector<bool>& left) {
  int may_live = 0, going_on = 0;
  bool has_first = false;
  Rank cut_off = kNoRank;
  for (int index = 0; index < group.size(); ++index) {
    const Rank rank = group.at(index);
    const bool here = left[static_cast<std::size_t>(index)];
    if (endpoint.unreachable(rank)) cut_off = rank;
    if (!here && !endpoint.unreachable(rank)) continue;
    if (may_live == 0) has_first = here;
    ++may_live;
    if (here) ++going_on;
  }
  if (cut_off == kNoRank || 2 * going_on > may_live || (2 * going_on == may_live && has_first)) return;
  throw Error(Code::peer_lost, cut_off,
              fmt::format("recover() does not go on with {} of {} members: {} cannot be reached but may live, and the "
                          "others may be going on without this side",
                          going_on, may_live, endpoint.describe(cut_off)));
}

}  // namespace

// Of those who have called recover(), the lowest tells the user who has not.
void CommunicatorState::warn_not_recovering(const std::vector<bool>& alive, Duration waited) const {
  std::string text =
      fmt::format("paceline: rank {} has waited {:.0f} s in recover()", endpoint.rank(), seconds(waited));
  for (int index = 0; index < group.size(); ++index) {
    const Rank peer = group.at(index);
    if (!alive[static_cast<std::size_t>(index)] || index == self) continue;
    if (!bulletin.vote_of(peer, group.context(), alive.size())) {
      text += fmt::format("\n  missing: {}: {}", endpoint.describe(peer), last_seen(peer));
    } else if (index < self) {
      return;
    }
  }
  warn(text);
}

Group CommunicatorState::agree_on_survivors(TimePoint deadline) {
  if (!broken_) read_notices();
  if (!broken_) throw Error(Code::invalid, "recover() was called on a group that is not broken");
  if (static_cast<std::size_t>(group.size()) > Vote::kMaxMembers)
    throw Error(Code::invalid, "the group is too large to recover");
  std::vector<bool> voted;
  const TimePoint start = endpoint.clock().now();
  bool warned = false;
  for (;;) {
    while (step()) {  // also the operations of other groups, which members may be waiting in
    }
    std::vector<bool> alive(static_cast<std::size_t>(group.size()));
    for (int index = 0; index < group.size(); ++index)
      alive[static_cast<std::size_t>(index)] = !endpoint.gone(group.at(index));
    if (alive != voted) bulletin.vote({.context = group.context(), .committed = false, .alive = alive});
    voted = alive;
    if (const auto agreed = decision(endpoint, bulletin, group, alive)) {
      demand_majority(endpoint, group, *agreed);
      bulletin.vote({.context = group.context(), .committed = true, .alive = *agreed});
      endpoint.retire(group.context());
      return group.next_epoch(members_of(group, *agreed));
    }
    const TimePoint now = endpoint.clock().now();
    if (!warned && now - start >= options.late_after) {
      warned = true;
      warn_not_recovering(alive, now - start);
    }
    if (now >= deadline) throw Error(Code::timeout, "not all members that are left have called recover() in time");
    // Alerts wake us; the look once in a while is for a board that changed without one.
    endpoint.idle(std::min(deadline, endpoint.clock().after(std::chrono::milliseconds(100))));
  }
}

}  // namespace paceline
