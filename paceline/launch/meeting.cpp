#include "paceline/launch/meeting.hpp"

#include <fmt/format.h>

#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/launch/devices.hpp"
#include "paceline/launch/rank_list.hpp"

namespace paceline {
namespace {

constexpr const char* kCard = "card";
constexpr const char* kNetwork = "network";
constexpr const char* kMet = "met";

// "card/3", or "servers/card/3" in the meeting with the servers.
std::string key_of(const MeetOptions& options, const char* kind, Rank rank) {
  return fmt::format("{}{}/{}", options.servers > 0 ? "servers/" : "", kind, rank);
}

std::vector<std::string> keys_of_all(const MeetOptions& options, const char* kind) {
  std::vector<std::string> keys;
  for (Rank rank = 0; rank < options.size; ++rank) keys.push_back(key_of(options, kind, rank));
  return keys;
}

void claim_rank(const MeetOptions& options, const Card& card, StoreClient& store) {
  const std::string key = key_of(options, kCard, options.rank);
  if (store.claim(key, encode(card), options.deadline)) return;
  const Card other = decode_card(options.rank, store.get(key, options.deadline));
  throw Error(Code::refused, options.rank,
              fmt::format("rank {} of this job is already taken by process {} on {}: two workers were started with "
                          "PACELINE_RANK={}, or this one a second time",
                          options.rank, other.identity.pid, other.identity.host, options.rank));
}

// What every rank has published under its key.
std::vector<std::string> collect(const MeetOptions& options, const char* kind, StoreClient& store) {
  const auto values = store.collect(keys_of_all(options, kind), options.deadline);
  std::vector<std::string> all;
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < options.size; ++rank) {
    const auto& value = values[static_cast<std::size_t>(rank)];
    value ? all.push_back(*value) : missing.push_back(rank);
  }
  if (missing.empty()) return all;
  throw Error(Code::timeout, missing.front(),
              fmt::format("{} of {} did not join within {:g} s (PACELINE_JOIN_TIMEOUT)", list_ranks(missing),
                          options.size, seconds(options.timeout)));
}

std::vector<Card> collect_cards(const MeetOptions& options, StoreClient& store) {
  std::vector<Card> cards;
  for (const std::string& value : collect(options, kCard, store)) {
    cards.push_back(decode_card(static_cast<Rank>(cards.size()), value));
  }
  return cards;
}

}  // namespace

MeetOptions meet_options(const Environment& environment, TimePoint deadline) {
  return {.rank = environment.rank,
          .size = environment.size,
          .secret = environment.secret,
          .host = host_name(),
          .timeout = environment.join_timeout,
          .deadline = deadline,
          .network = environment.network};
}

MeetOptions with_servers(MeetOptions options, int servers) {
  options.size += servers;
  options.servers = servers;
  return options;
}

std::unique_ptr<Endpoint> meet(const MeetOptions& options, StoreClient& store) {
  Newcomer newcomer(options);
  claim_rank(options, newcomer.card(), store);
  std::unique_ptr<Endpoint> endpoint;
  if (newcomer.learn(collect_cards(options, store))) {
    store.set(key_of(options, kNetwork, options.rank), newcomer.open_network(store.local_address()), options.deadline);
    endpoint = newcomer.connect(collect(options, kNetwork, store));
  } else {
    endpoint = newcomer.connect();
  }
  store.set(key_of(options, kMet, options.rank), {}, options.deadline);
  return endpoint;
}

void await_all_met(const MeetOptions& options, StoreClient& store) {
  store.collect(keys_of_all(options, kMet), options.deadline);
}

}  // namespace paceline
