// meet: how the ranks of a job find each other through the store. Each publishes a card under its rank and waits for
// the cards of all others. If all are on one host, they connect through shared memory; if not, each opens a network,
// and a second round of cards says where.
//
// Where servers are processes of their own, the workers meet a second time, with them (with_servers), under other
// names.
#pragma once

#include <memory>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/endpoint.hpp"
#include "paceline/launch/newcomer.hpp"
#include "paceline/launch/store_client.hpp"

namespace paceline {

// How this rank is to meet the others, by what its environment says.
MeetOptions meet_options(const Environment& environment, TimePoint deadline);
// The second meeting, with so many servers.
MeetOptions with_servers(MeetOptions options, int servers);

std::unique_ptr<Endpoint> meet(const MeetOptions& options, StoreClient& store);

// Waits until every rank has left meet, so that the one that serves the store knows that nobody needs it any more.
void await_all_met(const MeetOptions& options, StoreClient& store);

}  // namespace paceline
