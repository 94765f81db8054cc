#include "paceline/collective/bulletin.hpp"

#include <algorithm>
#include <cstring>

namespace paceline {
namespace {

// The board's slots: the latest operations, notices and votes, each kind overwriting its oldest.
constexpr std::size_t kFirstNotice = 8;
constexpr std::size_t kFirstVote = 12;
static_assert(kFirstVote + Bulletin::kSlotsOfAKind <= kBoardSlots);

constexpr std::uint64_t pair_of(Rank a, Rank b) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
}

}  // namespace

std::size_t Bulletin::enter(const Posted& posted) {
  const std::size_t number = entered_++;
  endpoint_.publish(number % kOperationSlots, to_record(posted), Wake::no);
  return number;
}

void Bulletin::leave(std::size_t number, Posted posted, TimePoint when) {
  posted.left = when;
  replace(number, posted);
}

void Bulletin::replace(std::size_t number, const Posted& posted) {
  if (entered_ - number > kOperationSlots) return;  // overwritten by later ones
  endpoint_.publish(number % kOperationSlots, to_record(posted), Wake::no);
}

// Twice alike: the peer may be writing, and its later operation must not be seen without its earlier one.
Bulletin::Operations Bulletin::read_operations(Rank peer) const {
  constexpr int kTries = 100;
  const auto read = [&] {
    Operations all;
    for (std::size_t slot = 0; slot < kOperationSlots; ++slot) all[slot] = endpoint_.read_board(peer, slot);
    return all;
  };
  Operations operations = read();
  for (int tries = 0; tries < kTries; ++tries) {
    Operations again = read();
    if (again == operations) break;
    operations = again;
  }
  return operations;
}

std::vector<Posted> Bulletin::recent(Rank peer) const {
  std::vector<Posted> found;
  for (const auto& record : read_operations(peer)) {
    if (!record) continue;
    Posted& posted = found.emplace_back(from_record(*record));
    // The peer wrote what its own clock shows.
    const Duration offset = endpoint_.clock_offset(peer);
    posted.entered -= offset;
    if (!posted.inside()) posted.left -= offset;
  }
  std::sort(found.begin(), found.end(), [](const Posted& a, const Posted& b) {
    return std::pair(a.entered, a.descriptor.sequence) > std::pair(b.entered, b.descriptor.sequence);
  });
  return found;
}

void Bulletin::give_notice(const Notice& notice) {
  BoardRecord record{};
  record[0] = notice.context;
  record[1] = notice.sequence;
  record[2] = static_cast<std::uint64_t>(notice.code);
  record[3] = pair_of(notice.culprit, notice.reporter);
  pack(notice.reporters, &record[4]);
  if (notice.code == Code::unsound) {
    std::memcpy(&record[8], notice.reason.data(), std::min(notice.reason.size(), Notice::kMaxReason));
  } else {
    pack(notice.culprits, &record[8]);
  }
  endpoint_.publish(kFirstNotice + notices_.slot_for(notice.context), record, Wake::yes);
}

std::optional<BoardRecord> Bulletin::find(Rank peer, std::size_t first, std::size_t slots,
                                          std::uint64_t context) const {
  for (std::size_t slot = first; slot < first + slots; ++slot) {
    const auto record = endpoint_.read_board(peer, slot);
    if (record && (*record)[0] == context) return record;
  }
  return std::nullopt;
}

std::size_t Bulletin::Latest::slot_for(std::uint64_t context) {
  const auto known = std::find(contexts.begin(), contexts.end(), context);
  const std::size_t slot =
      known != contexts.end() ? static_cast<std::size_t>(known - contexts.begin()) : used++ % contexts.size();
  contexts[slot] = context;
  return slot;
}

std::optional<Notice> Bulletin::notice_of(Rank peer, std::uint64_t context) const {
  const auto record = find(peer, kFirstNotice, kSlotsOfAKind, context);
  if (!record) return std::nullopt;
  Notice notice;
  notice.context = (*record)[0];
  notice.sequence = (*record)[1];
  notice.code = static_cast<Code>(std::min<std::uint64_t>((*record)[2], static_cast<std::uint64_t>(Code::unsound)));
  notice.culprit = static_cast<Rank>((*record)[3] >> 32);
  notice.reporter = static_cast<Rank>((*record)[3] & 0xffffffff);
  if (notice.culprit >= endpoint_.size() || notice.reporter < 0 || notice.reporter >= endpoint_.size())
    return std::nullopt;
  notice.reporters = unpack(&(*record)[4]);
  if (notice.code == Code::unsound) {
    const char* text = reinterpret_cast<const char*>(&(*record)[8]);
    notice.reason.assign(text, strnlen(text, Notice::kMaxReason));
  } else {
    notice.culprits = unpack(&(*record)[8]);
  }
  notice.reporters.sequence = notice.culprits.sequence = notice.sequence;
  return notice;
}

void Bulletin::vote(const Vote& vote) {
  BoardRecord record{};
  record[0] = vote.context;
  record[1] = vote.committed ? 1 : 0;
  for (std::size_t i = 0; i < vote.alive.size(); ++i) {
    if (vote.alive[i]) record[2 + i / 64] |= std::uint64_t{1} << (i % 64);
  }
  endpoint_.publish(kFirstVote + votes_.slot_for(vote.context), record, Wake::yes);
}

std::optional<Vote> Bulletin::vote_of(Rank peer, std::uint64_t context, std::size_t members) const {
  const auto record = find(peer, kFirstVote, kSlotsOfAKind, context);
  if (!record) return std::nullopt;
  Vote vote{.context = (*record)[0], .committed = (*record)[1] != 0, .alive = std::vector<bool>(members)};
  for (std::size_t i = 0; i < members; ++i) vote.alive[i] = ((*record)[2 + i / 64] >> (i % 64) & 1) != 0;
  return vote;
}

}  // namespace paceline
