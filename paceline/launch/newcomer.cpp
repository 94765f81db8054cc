#include "paceline/launch/newcomer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"
#include "paceline/fabric/cores.hpp"
#include "paceline/launch/devices.hpp"
#include "paceline/launch/network.hpp"
#include "paceline/launch/proof.hpp"

namespace paceline {
namespace {

constexpr auto kLinkPatience = std::chrono::seconds(5);

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

// A host with ranks [0, 1, 2, 3] is two of them if two ranks make one.
std::vector<std::string> split_hosts(std::span<const Card> cards, int ranks_of_a_host) {
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

// Workers are on the hosts that they are on without servers; where machines are split, a server is a host of its own.
std::vector<std::string> host_keys(std::span<const Card> cards, int servers, const NetworkChoice& network) {
  const auto workers = cards.first(cards.size() - static_cast<std::size_t>(servers));
  auto keys = split_hosts(workers, network.split_host);
  // A link that is to be imitated must be somewhere.
  const bool nowhere = network.link.shapes() && network.split_host == 0 && all_same(keys);
  if (nowhere) keys = split_hosts(workers, 1);
  const bool split = nowhere || network.split_host > 0;
  for (std::size_t rank = workers.size(); rank < cards.size(); ++rank)
    keys.push_back(split ? fmt::format("{} server {}", cards[rank].host_key, rank) : cards[rank].host_key);
  return keys;
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

Newcomer::Newcomer(MeetOptions options) : options_(std::move(options)) {
  card_.host_key = host_key();
  card_.door = door_.name();
  card_.identity = {options_.host, getpid()};
  card_.salt = random_bytes(kNonceBytes);
  card_.imitation = imitation(options_.network);
}

bool Newcomer::learn(std::vector<Card> cards) {
  cards_ = std::move(cards);
  check_versions(cards_);
  check_imitations(cards_, card_.imitation);
  return learn_hosts(number_hosts(host_keys(cards_, options_.servers, options_.network)));
}

bool Newcomer::learn(std::vector<Card> cards, std::vector<int> hosts) {
  cards_ = std::move(cards);
  check_versions(cards_);
  return learn_hosts(std::move(hosts));
}

bool Newcomer::learn_hosts(std::vector<int> hosts) {
  hosts_ = std::move(hosts);
  return std::any_of(hosts_.begin(), hosts_.end(), [&](int host) { return host != hosts_.front(); });
}

std::string Newcomer::open_network(const std::string& local_address) {
  if (options_.secret.empty()) {
    throw Error(Code::invalid, "workers on several hosts need a secret, the same for all: PACELINE_SECRET");
  }
  const NetworkChoice& network = options_.network;
  const auto rdma = rdma_device(network.device);
  const NetworkDevice device = choose_device(network_devices(), rdma ? "" : network.device, local_address);
  if (!rdma) await_operation(device, kLinkPatience, SteadyClock());
  control_.emplace(device.address, network.ports);
  wire_ = paceline::open_network({device, rdma.value_or(""), network.ports, network.transports});
  return Packer()
      .text(control_->address())
      .text(wire_->address())
      .number(static_cast<std::uint32_t>(available_cores().count()))
      .text(clock_key())
      .take();
}

std::unique_ptr<Endpoint> Newcomer::connect() {
  shm::ConnectOptions how{
      .rank = options_.rank, .token = hex(job_token(options_, cards_)), .deadline = options_.deadline};
  for (const Card& card : cards_) how.peers.push_back({card.door, card.identity});
  return shm::connect(how, std::move(door_));
}

std::unique_ptr<Endpoint> Newcomer::connect(const std::vector<std::string>& network_cards) {
  const std::string token = job_token(options_, cards_);
  HostsOptions how{.rank = options_.rank,
                   .token = hex(token),
                   .wire_token = wire_token(token),
                   .deadline = options_.deadline,
                   .silence = options_.network.silence,
                   .link = options_.network.link};
  for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
    const NetworkCard of_rank = decode_network_card(static_cast<Rank>(rank), network_cards[rank]);
    how.peers.push_back({hosts_[rank], cards_[rank].door, of_rank.control, of_rank.wire, of_rank.cores, of_rank.clock,
                         cards_[rank].identity});
  }
  return connect_hosts(how, {std::move(door_), std::move(*control_), std::move(wire_)});
}

}  // namespace paceline
