#include "paceline/launch/meeting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/fabric/shm/shm.hpp"
#include "paceline/launch/proof.hpp"
#include "paceline/launch/wire.hpp"

namespace paceline {
namespace {

std::string card_key(Rank rank) { return fmt::format("card/{}", rank); }
std::string met_key(Rank rank) { return fmt::format("met/{}", rank); }

std::vector<std::string> keys_of_all(int size, std::string (*key)(Rank)) {
  std::vector<std::string> keys;
  for (Rank rank = 0; rank < size; ++rank) keys.push_back(key(rank));
  return keys;
}

// "rank 3" or "ranks 1, 3 and 12 more".
std::string list_ranks(const std::vector<Rank>& ranks) {
  constexpr std::size_t kShown = 16;
  const std::size_t shown = std::min(kShown, ranks.size());
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                                 fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

void claim_rank(const MeetOptions& options, const Card& card, StoreClient& store) {
  if (store.claim(card_key(options.rank), encode(card), options.deadline)) return;
  const Card other = decode_card(options.rank, store.get(card_key(options.rank), options.deadline));
  throw Error(Code::refused, options.rank,
              fmt::format("rank {} of this job is already taken by process {} on {}: two workers were started with "
                          "PACELINE_RANK={}, or this one a second time",
                          options.rank, other.identity.pid, other.identity.host, options.rank));
}

std::vector<Card> collect_cards(const MeetOptions& options, StoreClient& store) {
  const auto values = store.collect(keys_of_all(options.size, card_key), options.deadline);
  std::vector<Card> cards;
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < options.size; ++rank) {
    const auto& value = values[static_cast<std::size_t>(rank)];
    value ? cards.push_back(decode_card(rank, *value)) : missing.push_back(rank);
  }
  if (missing.empty()) return cards;
  throw Error(Code::timeout, missing.front(),
              fmt::format("{} of {} did not join within {:g} s (PACELINE_JOIN_TIMEOUT)", list_ranks(missing),
                          options.size, seconds(options.timeout)));
}

void check_versions(const std::vector<Card>& cards) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].versions == this_build()) continue;
    throw Error(Code::refused, static_cast<Rank>(rank),
                fmt::format("rank {} is {} but this worker is {}: all workers of a job must be of one build", rank,
                            describe(cards[rank].versions), describe(this_build())));
  }
}

std::unique_ptr<Endpoint> connect(const MeetOptions& options, const std::vector<Card>& cards, shm::Door door) {
  shm::ConnectOptions how;
  how.rank = options.rank;
  // With a secret, the salt alone, which travels in the clear, does not give the token away.
  how.token = hex(hmac_sha256(options.secret, "paceline job token " + cards.front().salt));
  how.deadline = options.deadline;
  for (const Card& card : cards) how.peers.push_back({card.door, card.identity});
  try {
    return shm::connect(how, std::move(door));
  } catch (const Error& error) {
    const bool named = error.code() == Code::peer_lost && error.rank() >= 0 && error.rank() < options.size;
    if (!named) throw;
    const std::string& host = cards[static_cast<std::size_t>(error.rank())].identity.host;
    if (host == options.host) throw;
    throw Error(Code::invalid, error.rank(),
                fmt::format("rank {} is on host {} and this rank, {}, on {}: this build has no transport between hosts",
                            error.rank(), host, options.rank, options.host));
  }
}

}  // namespace

std::string encode(const Card& card) {
  return Writer()
      .text(card.door)
      .text(card.identity.host)
      .number(static_cast<std::uint32_t>(card.identity.pid))
      .number(card.versions.protocol)
      .text(card.versions.build)
      .text(card.salt)
      .take();
}

Card decode_card(Rank rank, std::string_view bytes) {
  Reader reader(bytes);
  Card card;
  card.door = reader.text();
  card.identity.host = reader.text();
  card.identity.pid = static_cast<int>(reader.number<std::uint32_t>());
  card.versions.protocol = reader.number<std::uint16_t>();
  card.versions.build = reader.text();
  card.salt = reader.text();
  if (!reader.complete()) throw Error(Code::refused, rank, fmt::format("what rank {} published is malformed", rank));
  return card;
}

std::unique_ptr<Endpoint> meet(const MeetOptions& options, StoreClient& store) {
  shm::Door door;
  Card card;
  card.door = door.name();
  card.identity = {options.host, getpid()};
  card.salt = random_bytes(kNonceBytes);
  claim_rank(options, card, store);
  const std::vector<Card> cards = collect_cards(options, store);
  check_versions(cards);
  auto endpoint = connect(options, cards, std::move(door));
  store.set(met_key(options.rank), {}, options.deadline);
  return endpoint;
}

void await_all_met(int size, TimePoint deadline, StoreClient& store) {
  store.collect(keys_of_all(size, met_key), deadline);
}

}  // namespace paceline
