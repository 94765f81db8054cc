// ServerTree: who serves whom in a job with relays: which ranks keep the tables, which stand between, and which work.
// From it each rank learns what it is. Pure functions of a value that all ranks have alike.
//
//   const ServerTree tree{.servers = {6}, .workers = {0, 1, 2, 3}, .branches = {{4, {0, 1}}, {5, {2, 3}}}};
//   if (is_server(tree, rank)) return serve(endpoint, serve_options(tree, rank));
//   if (is_relay(tree, rank)) return serve_relay(endpoint, relay_options(tree, rank));
//   Session session(endpoint, session_options(tree, rank));
//
// A relay on each host, for the workers of that host, is relays_by_host. Without branches all workers ask the servers.
#pragma once

#include <span>
#include <vector>

#include "paceline/server/relay.hpp"
#include "paceline/server/serve.hpp"
#include "paceline/server/session.hpp"

namespace paceline {

struct RelayBranch {
  Rank relay = 0;
  std::vector<Rank> children = {};  // workers, or relays of other branches, in the order in which they are added up
};

struct ServerTree {
  std::vector<Rank> servers = {};
  std::vector<Rank> workers = {};
  std::vector<RelayBranch> branches = {};
  Policy policy = {};
};

// Throws Error{invalid}: a rank has two places, or none, or relays have each other for children.
void check(const ServerTree& tree);

bool is_server(const ServerTree& tree, Rank rank);
bool is_relay(const ServerTree& tree, Rank rank);
ServeOptions serve_options(const ServerTree& tree, Rank server);
RelayOptions relay_options(const ServerTree& tree, Rank relay);
// Of a worker, and of a relay as its parents see it.
SessionOptions session_options(const ServerTree& tree, Rank rank);

// Branches for workers with these hosts, by rank: one for each host that has several workers, as long as there are
// relays for it; a relay takes a host of its own if it can. Other workers ask the servers themselves.
std::vector<RelayBranch> relays_by_host(std::span<const int> host_of_rank, std::span<const Rank> workers,
                                        std::span<const Rank> relays);

}  // namespace paceline
