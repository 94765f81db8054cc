#include "paceline/launch/meeting.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/fabric/cores.hpp"
#include "paceline/fabric/hosts/hosts_transport.hpp"
#include "paceline/fabric/shm/shm.hpp"
#include "paceline/launch/devices.hpp"
#include "paceline/launch/network.hpp"
#include "paceline/launch/packing.hpp"
#include "paceline/launch/proof.hpp"
#include "paceline/launch/rank_list.hpp"

namespace paceline {
namespace {

std::string card_key(Rank rank) { return fmt::format("card/{}", rank); }
std::string network_key(Rank rank) { return fmt::format("network/{}", rank); }
std::string met_key(Rank rank) { return fmt::format("met/{}", rank); }

std::vector<std::string> keys_of_all(int size, std::string (*key)(Rank)) {
  std::vector<std::string> keys;
  for (Rank rank = 0; rank < size; ++rank) keys.push_back(key(rank));
  return keys;
}

void claim_rank(const MeetOptions& options, const Card& card, StoreClient& store) {
  if (store.claim(card_key(options.rank), encode(card), options.deadline)) return;
  const Card other = decode_card(options.rank, store.get(card_key(options.rank), options.deadline));
  throw Error(Code::refused, options.rank,
              fmt::format("rank {} of this job is already taken by process {} on {}: two workers were started with "
                          "PACELINE_RANK={}, or this one a second time",
                          options.rank, other.identity.pid, other.identity.host, options.rank));
}

// What every rank has published under its key.
std::vector<std::string> collect(const MeetOptions& options, std::string (*key)(Rank), StoreClient& store) {
  const auto values = store.collect(keys_of_all(options.size, key), options.deadline);
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
  for (const std::string& value : collect(options, card_key, store)) {
    cards.push_back(decode_card(static_cast<Rank>(cards.size()), value));
  }
  return cards;
}

void check_versions(const std::vector<Card>& cards) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].versions == this_build()) continue;
    throw Error(Code::refused, static_cast<Rank>(rank),
                fmt::format("rank {} is {} but this worker is {}: all workers of a job must be of one build", rank,
                            describe(cards[rank].versions), describe(this_build())));
  }
}

std::string imitation(const NetworkChoice& network) {
  std::string text = network.link.shapes() ? "PACELINE_LINK=" + network.link.text : "no PACELINE_LINK";
  if (network.split_host > 0) text += fmt::format(" PACELINE_SPLIT_HOST={}", network.split_host);
  return text;
}

void check_imitations(const std::vector<Card>& cards, const std::string& own) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].imitation == own) continue;
    throw Error(Code::refused, static_cast<Rank>(rank),
                fmt::format("rank {} on {} has {} but this worker has {}: all workers of a job imitate one network",
                            rank, cards[rank].identity.host, cards[rank].imitation, own));
  }
}

// With a secret, the salt alone, which travels in the clear, does not give the token away.
std::string job_token(const MeetOptions& options, const std::vector<Card>& cards) {
  return hmac_sha256(options.secret, "paceline job token " + cards.front().salt);
}

std::unique_ptr<Endpoint> connect_one_host(const MeetOptions& options, const std::vector<Card>& cards, shm::Door door) {
  shm::ConnectOptions how{.rank = options.rank, .token = hex(job_token(options, cards)), .deadline = options.deadline};
  for (const Card& card : cards) how.peers.push_back({card.door, card.identity});
  return shm::connect(how, std::move(door));
}

// A host with ranks [0, 1, 2, 3] is two of them if two ranks make one.
std::vector<std::string> split_hosts(const std::vector<Card>& cards, int ranks_of_a_host) {
  std::vector<std::string> keys;
  std::map<std::string, int> ranks_on;
  for (const Card& card : cards) {
    const int index = ranks_on[card.host_key]++;
    keys.push_back(ranks_of_a_host == 0 ? card.host_key
                                        : fmt::format("{} part {}", card.host_key, index / ranks_of_a_host));
  }
  return keys;
}

bool all_same(const std::vector<std::string>& keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return key == keys.front(); });
}

std::vector<std::string> host_keys(const std::vector<Card>& cards, const NetworkChoice& network) {
  const auto keys = split_hosts(cards, network.split_host);
  // A link that is to be imitated must be somewhere.
  const bool nowhere = network.link.shapes() && network.split_host == 0 && all_same(keys);
  return nowhere ? split_hosts(cards, 1) : keys;
}

// In the order in which their first ranks come.
std::vector<int> number_hosts(const std::vector<std::string>& host_keys) {
  std::vector<std::string> keys;
  std::vector<int> hosts;
  for (const std::string& key : host_keys) {
    const auto found = std::find(keys.begin(), keys.end(), key);
    hosts.push_back(static_cast<int>(found - keys.begin()));
    if (found == keys.end()) keys.push_back(key);
  }
  return hosts;
}

// What a rank tells the others when it turns out that there are several hosts.
struct NetworkCard {
  std::string control;  // address of its ControlDoor
  std::string wire;     // of its Wire
  int cores = 1;
  std::string clock;  // clock_key()
};

NetworkCard decode_network_card(Rank rank, std::string_view bytes) {
  Unpacker reader(bytes);
  NetworkCard card;
  card.control = reader.text();
  card.wire = reader.text();
  card.cores = static_cast<int>(reader.number<std::uint32_t>());
  card.clock = reader.text();
  if (!reader.complete()) throw Error(Code::refused, rank, fmt::format("what rank {} published is malformed", rank));
  return card;
}

// What is on the wire in clear must not open the doors of shared memory, so it is another one.
Token wire_token(const std::string& token) {
  const Digest digest = hmac_sha256(token, "paceline wire");
  Token result;
  std::memcpy(result.data(), digest.data(), result.size());
  return result;
}

std::unique_ptr<Endpoint> connect_many_hosts(const MeetOptions& options, const std::vector<Card>& cards,
                                             const std::vector<int>& hosts, shm::Door door, StoreClient& store) {
  if (options.secret.empty()) {
    throw Error(Code::invalid, "workers on several hosts need a secret, the same for all: PACELINE_SECRET");
  }
  const NetworkChoice& network = options.network;
  const auto rdma = rdma_device(network.device);
  const NetworkDevice device = choose_device(network_devices(), rdma ? "" : network.device, store.local_address());
  Doors doors{std::move(door), ControlDoor(device.address, network.ports),
              open_network({device, rdma.value_or(""), network.ports, network.transports})};
  const std::string card = Packer()
                               .text(doors.control.address())
                               .text(doors.wire->address())
                               .number(static_cast<std::uint32_t>(available_cores().count()))
                               .text(clock_key())
                               .take();
  store.set(network_key(options.rank), card, options.deadline);

  const std::string token = job_token(options, cards);
  HostsOptions how{.rank = options.rank,
                   .token = hex(token),
                   .wire_token = wire_token(token),
                   .deadline = options.deadline,
                   .silence = options.network.silence,
                   .link = options.network.link};
  const auto values = collect(options, network_key, store);
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const NetworkCard of_rank = decode_network_card(static_cast<Rank>(rank), values[rank]);
    how.peers.push_back({hosts[rank], cards[rank].door, of_rank.control, of_rank.wire, of_rank.cores, of_rank.clock,
                         cards[rank].identity});
  }
  return connect_hosts(how, std::move(doors));
}

}  // namespace

std::string encode(const Card& card) {
  return Packer()
      .text(card.host_key)
      .text(card.door)
      .text(card.identity.host)
      .number(static_cast<std::uint32_t>(card.identity.pid))
      .number(card.versions.protocol)
      .text(card.versions.build)
      .text(card.salt)
      .text(card.imitation)
      .take();
}

Card decode_card(Rank rank, std::string_view bytes) {
  Unpacker reader(bytes);
  Card card;
  card.host_key = reader.text();
  card.door = reader.text();
  card.identity.host = reader.text();
  card.identity.pid = static_cast<int>(reader.number<std::uint32_t>());
  card.versions.protocol = reader.number<std::uint16_t>();
  card.versions.build = reader.text();
  card.salt = reader.text();
  card.imitation = reader.text();
  if (!reader.complete()) throw Error(Code::refused, rank, fmt::format("what rank {} published is malformed", rank));
  return card;
}

std::unique_ptr<Endpoint> meet(const MeetOptions& options, StoreClient& store) {
  shm::Door door;
  Card card;
  card.host_key = host_key();
  card.door = door.name();
  card.identity = {options.host, getpid()};
  card.salt = random_bytes(kNonceBytes);
  card.imitation = imitation(options.network);
  claim_rank(options, card, store);
  const std::vector<Card> cards = collect_cards(options, store);
  check_versions(cards);
  check_imitations(cards, card.imitation);
  const auto keys = host_keys(cards, options.network);
  auto endpoint = all_same(keys) ? connect_one_host(options, cards, std::move(door))
                                 : connect_many_hosts(options, cards, number_hosts(keys), std::move(door), store);
  store.set(met_key(options.rank), {}, options.deadline);
  return endpoint;
}

void await_all_met(int size, TimePoint deadline, StoreClient& store) {
  store.collect(keys_of_all(size, met_key), deadline);
}

}  // namespace paceline
