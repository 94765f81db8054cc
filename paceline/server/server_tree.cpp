#include "paceline/server/server_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

template <class Ranks>
bool has(const Ranks& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

int index_in(const std::vector<Rank>& ranks, Rank rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) throw Error(Code::invalid, fmt::format("rank {} has no such place in the tree", rank));
  return static_cast<int>(found - ranks.begin());
}

const RelayBranch* parent_of(const ServerTree& tree, Rank rank) {
  for (const RelayBranch& branch : tree.branches) {
    if (has(branch.children, rank)) return &branch;
  }
  return nullptr;
}

// Who asks the servers themselves: relays first, then workers that have none.
std::vector<Rank> clients_of_servers(const ServerTree& tree) {
  std::vector<Rank> clients;
  for (const RelayBranch& branch : tree.branches) {
    if (parent_of(tree, branch.relay) == nullptr) clients.push_back(branch.relay);
  }
  for (const Rank worker : tree.workers) {
    if (parent_of(tree, worker) == nullptr) clients.push_back(worker);
  }
  return clients;
}

[[noreturn]] void refuse(Rank rank, const char* why) {
  throw Error(Code::invalid, fmt::format("the tree of servers cannot be: rank {} {}", rank, why));
}

}  // namespace

void check(const ServerTree& tree) {
  if (tree.servers.empty() || tree.workers.empty())
    throw Error(Code::invalid, "the tree of servers cannot be: it has no server, or no worker");
  std::set<Rank> placed;
  const auto place = [&](Rank rank) {
    if (!placed.insert(rank).second) refuse(rank, "is two of server, relay and worker, or one of them twice");
  };
  for (const Rank rank : tree.servers) place(rank);
  for (const Rank rank : tree.workers) place(rank);
  for (const RelayBranch& branch : tree.branches) place(branch.relay);
  std::set<Rank> children;
  for (const RelayBranch& branch : tree.branches) {
    if (branch.children.empty()) refuse(branch.relay, "is a relay for nobody");
    for (const Rank child : branch.children) {
      if (!placed.contains(child) || is_server(tree, child)) refuse(child, "is under a relay, but no worker or relay");
      if (!children.insert(child).second) refuse(child, "is under two relays");
    }
  }
  for (const RelayBranch& branch : tree.branches) {
    const RelayBranch* above = &branch;
    for (std::size_t steps = 0; above != nullptr; ++steps, above = parent_of(tree, above->relay)) {
      if (steps > tree.branches.size()) refuse(branch.relay, "is above itself");
    }
  }
}

bool is_server(const ServerTree& tree, Rank rank) { return has(tree.servers, rank); }

bool is_relay(const ServerTree& tree, Rank rank) {
  return std::any_of(tree.branches.begin(), tree.branches.end(),
                     [&](const RelayBranch& branch) { return branch.relay == rank; });
}

ServeOptions serve_options(const ServerTree& tree, Rank server) {
  return {.workers = clients_of_servers(tree),
          .index = index_in(tree.servers, server),
          .servers = static_cast<int>(tree.servers.size()),
          .policy = tree.policy,
          .leaves = static_cast<int>(tree.workers.size()),
          .server_ranks = tree.servers};
}

RelayOptions relay_options(const ServerTree& tree, Rank relay) {
  for (const RelayBranch& branch : tree.branches) {
    if (branch.relay == relay) return {.children = branch.children, .parent = session_options(tree, relay)};
  }
  throw Error(Code::invalid, fmt::format("rank {} is no relay of the tree", relay));
}

SessionOptions session_options(const ServerTree& tree, Rank rank) {
  const RelayBranch* const parent = parent_of(tree, rank);
  const std::vector<Rank> siblings = parent == nullptr ? clients_of_servers(tree) : parent->children;
  return {.servers = parent == nullptr ? tree.servers : std::vector<Rank>{parent->relay},
          .worker = index_in(siblings, rank),
          .workers = static_cast<int>(siblings.size()),
          .policy = tree.policy};
}

std::vector<RelayBranch> relays_by_host(std::span<const int> host_of_rank, std::span<const Rank> workers,
                                        std::span<const Rank> relays) {
  const auto host_of = [&](Rank rank) { return host_of_rank[static_cast<std::size_t>(rank)]; };
  std::map<int, std::vector<Rank>> of_host;
  for (const Rank worker : workers) of_host[host_of(worker)].push_back(worker);
  std::erase_if(of_host, [](const auto& host) { return host.second.size() < 2; });
  std::vector<RelayBranch> branches;
  std::vector<Rank> spare;
  for (const Rank relay : relays) {
    const auto found = of_host.find(host_of(relay));
    if (found == of_host.end()) {
      spare.push_back(relay);
      continue;
    }
    branches.push_back({relay, std::move(found->second)});
    of_host.erase(found);
  }
  for (auto& [host, ranks] : of_host) {
    if (spare.empty()) break;
    branches.push_back({spare.back(), std::move(ranks)});
    spare.pop_back();
  }
  return branches;
}

}  // namespace paceline
