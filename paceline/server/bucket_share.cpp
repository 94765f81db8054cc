#include "paceline/server/bucket_share.hpp"

#include <algorithm>

namespace paceline {

BucketShare::BucketShare(int index, int servers)
    : index_(index), servers_(servers), loads_(kBuckets), planned_(first_owners(servers)), owners_(planned_) {}

void BucketShare::count(std::span<const std::uint64_t> keys) {
  for (const std::uint64_t key : keys) ++loads_[bucket_of_key(key)];
}

const BucketOwners& BucketShare::plan(std::int64_t step, std::span<const std::uint64_t> loads) {
  const auto [found, fresh] = plans_.try_emplace(step);
  if (fresh) planned_ = found->second = balanced_owners(planned_, loads, servers_);
  return found->second;
}

void BucketShare::forget_plans(std::int64_t before) { plans_.erase(plans_.begin(), plans_.lower_bound(before)); }

void BucketShare::adopt(std::int64_t step, const BucketOwners& owners) {
  if (step <= adopted_) return;
  adopted_ = step;
  Change change;
  change.out = {.step = step, .to = std::vector<int>(kBuckets, -1)};
  change.from.assign(kBuckets, -1);
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    const int before = owners_[bucket];
    const int after = owners[bucket];
    if (before == after) continue;
    if (before == index_) {
      change.out.to[bucket] = after;
      change.handed = false;
    }
    if (after == index_) {
      change.from[bucket] = before;
      if (!early_.contains({step, before})) change.awaited.insert(before);
    }
  }
  early_.erase(early_.begin(), early_.lower_bound({step + 1, 0}));
  owners_ = owners;
  for (std::uint64_t& load : loads_) load /= 2;  // what was long ago counts less and less
  if (!change.handed || !change.awaited.empty()) changes_.push_back(std::move(change));
}

bool BucketShare::awaits(std::int64_t clock, std::span<const std::uint64_t> keys) const {
  for (const Change& change : changes_) {
    if (clock < change.out.step || change.awaited.empty()) continue;
    for (const std::uint64_t key : keys) {
      if (change.awaited.contains(change.from[bucket_of_key(key)])) return true;
    }
  }
  return false;
}

bool BucketShare::awaits_any() const {
  return std::any_of(changes_.begin(), changes_.end(), [](const Change& change) { return !change.awaited.empty(); });
}

bool BucketShare::awaits_any(std::int64_t clock) const {
  return std::any_of(changes_.begin(), changes_.end(),
                     [&](const Change& change) { return clock >= change.out.step && !change.awaited.empty(); });
}

void BucketShare::arrive(int from, std::int64_t step) {
  if (step > adopted_) {
    early_.emplace(step, from);
    return;
  }
  for (Change& change : changes_) {
    if (change.out.step == step) change.awaited.erase(from);
  }
}

// In the order of steps: a bucket that has still to come cannot go on.
std::optional<BucketShare::HandOver> BucketShare::take_due(std::int64_t slowest) {
  std::erase_if(changes_, [](const Change& change) { return change.handed && change.awaited.empty(); });
  for (Change& change : changes_) {
    if (change.out.step > slowest) break;
    if (!std::exchange(change.handed, true)) return change.out;
    if (!change.awaited.empty()) break;
  }
  return std::nullopt;
}

}  // namespace paceline
