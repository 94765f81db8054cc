// meet: how the ranks of a job find each other through the store. Each publishes a card under its rank and waits for
// the cards of all others. If all are on one host, they connect through shared memory; if not, each opens a network,
// and a second round of cards says where.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/endpoint.hpp"
#include "paceline/launch/environment.hpp"
#include "paceline/launch/protocol.hpp"
#include "paceline/launch/store_client.hpp"

namespace paceline {

// What a rank tells the others about itself.
struct Card {
  std::string host_key;  // see devices.hpp
  std::string door;      // where it can be reached through shared memory
  Identity identity;
  Versions versions = this_build();
  std::string salt;       // random; rank 0's makes the job's token
  std::string imitation;  // what network it is to imitate, for all must do the same
};
std::string encode(const Card& card);
// Throws Error{refused}: not a card.
Card decode_card(Rank rank, std::string_view bytes);

struct MeetOptions {
  Rank rank = 0;
  int size = 1;
  std::string secret;
  std::string host;
  Duration timeout{};
  TimePoint deadline = kNever;
  NetworkChoice network = {};
};
std::unique_ptr<Endpoint> meet(const MeetOptions& options, StoreClient& store);

// Waits until every rank has left meet, so that the one that serves the store knows that nobody needs it any more.
void await_all_met(int size, TimePoint deadline, StoreClient& store);

}  // namespace paceline
