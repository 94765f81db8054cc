// Newcomer: a rank on its way into a job. It has opened what others need to reach it, tells them so on a card, and
// connects once it has everybody's. Who carries the cards is not its business: the store (meet), or a job that has met
// already (extend).
//
//   Newcomer newcomer({.rank = 1, .size = 4, …});
//   const bool many_hosts = newcomer.learn(cards_of_all);          // newcomer.card() among them
//   auto endpoint = many_hosts ? newcomer.connect(network_cards) : newcomer.connect();
//
// One thread owns it; several of one process may connect side by side.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/hosts/hosts_transport.hpp"
#include "paceline/fabric/shm/shm.hpp"
#include "paceline/launch/environment.hpp"
#include "paceline/launch/protocol.hpp"

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
  int servers = 0;  // of `size`: the last ranks are servers, in processes of their own, who meet the workers here
  std::string secret;
  std::string host;
  Duration timeout{};
  TimePoint deadline = kNever;
  NetworkChoice network = {};
};

class Newcomer {
 public:
  explicit Newcomer(MeetOptions options);

  const Card& card() const { return card_; }
  // The cards of all, by rank. True if they are on several hosts: then everybody opens a network and tells the others
  // what open_network returns. Throws Error{refused} where ranks cannot be of one job.
  bool learn(std::vector<Card> cards);
  // The same where it is known already who shares a host: by rank, numbered in the order in which they first come.
  bool learn(std::vector<Card> cards, std::vector<int> hosts);
  // `local_address`: of the connection that leads to the others, by which a device is chosen.
  std::string open_network(const std::string& local_address);
  std::unique_ptr<Endpoint> connect();
  std::unique_ptr<Endpoint> connect(const std::vector<std::string>& network_cards);

 private:
  bool learn_hosts(std::vector<int> hosts);

  const MeetOptions options_;
  shm::Door door_;
  Card card_;
  std::vector<Card> cards_;
  std::vector<int> hosts_;  // by rank
  std::optional<ControlDoor> control_;
  std::unique_ptr<Wire> wire_;
};

}  // namespace paceline
