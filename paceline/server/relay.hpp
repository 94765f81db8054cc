// serve_relay: a rank that is a server for its children, workers or other relays, and one worker for its parents, the
// servers or a relay. It adds up what its children push in a step, in their order, and sends one update on; it reads
// once for all that ask for the same. With c children under it a parent has 1/c of their messages and bytes.
//
//   serve_relay(endpoint, {.children = {0, 1, 2, 3}, .parent = {.servers = {6}, .worker = 0, .workers = 2, .policy =
//   p}});
//
// and the children's sessions name it as their only server: {.servers = {4}, .worker = index among its children, ...}.
// server_tree.hpp works out all of that for a whole job.
//
// Note [What a relay promises]. Its clock at the parents is that of its slowest child, and with it go the updates of
// all steps before. So a read keeps the policy's promise as without a relay, for bsp, ssp and essp. What of its
// children's updates the parents do not have yet it adds to what they read (ssp, essp), so that they see their own, and
// each other's; hence tables have the rule add there. Others see an update when the slowest child of its relay has
// ended the step, no sooner. A read may be answered with values that an earlier one fetched, if they contain what it
// must and no less than the reader has seen: reads are then as old as the policy allows, not as fresh as they could be.
// A pull that requires nothing goes to the parents.
// - bsp: the bits are the same for any number of servers and any order of arrival, with the same tree. Another tree
// adds
//   in another order.
// - async and softsync are refused: a relay holds updates back for its slowest child, and makes one of several.
// - A reply's `contained` has one clock for each child, then those of the parents' other workers and relays; behind a
//   relay lies the least of several workers. Staleness is measured from that; in updates (updates_missed) it counts
//   what the parents apply: an update of a relay is one.
// - A child that dies has left (ssp, essp), with what it had sent; under bsp all workers of the job are told who died.
// - A push that a server refuses, for want of memory, ends the relay's children with the sentence: it was answered.
// - Table::get_together sees one moment only where there is one server.
//
// Returns when all children have left or died. Runs on the thread that owns the Endpoint.
#pragma once

#include <vector>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/server/session.hpp"

namespace paceline {

struct RelayOptions {
  std::vector<Rank> children = {};  // by their numbers
  SessionOptions parent = {};       // of this rank as a worker
};
// Throws Error{invalid} for a policy that it does not take.
void serve_relay(Endpoint& endpoint, const RelayOptions& options);

}  // namespace paceline
