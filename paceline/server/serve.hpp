// serve: one rank as a parameter server. Takes requests from the workers, hands them to a ServerShard, sends its
// answers; returns when every worker has left or died.
//
//   serve(endpoint, {.workers = {0, 1, 2, 3}, .index = 0, .servers = 2, .policy = parse_policy("ssp:3")});
//
// Runs on the thread that owns the Endpoint and sleeps when there is nothing to do.
#pragma once

#include <vector>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/sync/policy.hpp"

namespace paceline {

struct ServeOptions {
  std::vector<Rank> workers = {};  // by their numbers
  int index = 0;                   // which server this is
  int servers = 1;
  Policy policy = {};
  int leaves = 0;                       // workers in all, with those behind relays; 0: there are no relays
  std::vector<Rank> server_ranks = {};  // by their indices; needed for tables whose load is shared anew
};
void serve(Endpoint& endpoint, const ServeOptions& options);

}  // namespace paceline
