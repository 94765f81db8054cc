#include "paceline/core/group.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kWorldContext = 0x776f726c64ULL;

}  // namespace

Group Group::world(int size) {
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return Group(std::move(ranks), 0, kWorldContext);
}

Group::Group(std::vector<Rank> ranks, std::uint32_t epoch, std::uint64_t context)
    : ranks_(std::move(ranks)), epoch_(epoch), context_(context) {
  CHECK(!ranks_.empty(), "a group has at least one member");
}

int Group::index_of(Rank rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  return found == ranks_.end() ? -1 : static_cast<int>(found - ranks_.begin());
}

Group Group::next_epoch(std::vector<Rank> survivors) const {
  return Group(std::move(survivors), epoch_ + 1, mix(context_, epoch_ + 1));
}

Group Group::child(std::vector<Rank> members, std::uint64_t ordinal, std::int64_t color) const {
  const std::uint64_t context = mix(mix(context_, ~ordinal), static_cast<std::uint64_t>(color));
  return Group(std::move(members), epoch_, context);
}

}  // namespace paceline
