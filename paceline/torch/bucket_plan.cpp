#include "paceline/torch/bucket_plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace paceline {

std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<BucketMember>& members,
                                                   const std::vector<std::size_t>& order, std::size_t bucket_bytes) {
  struct Open {
    std::vector<std::size_t> members;
    std::size_t bytes = 0;
    std::size_t last = 0;  // position in `order`
  };
  std::vector<std::vector<std::size_t>> buckets;
  std::map<std::size_t, Open> open;  // by region
  for (std::size_t position = 0; position < order.size(); ++position) {
    const BucketMember& member = members[order[position]];
    Open& bucket = open[member.region];
    bucket.members.push_back(order[position]);
    bucket.bytes += member.bytes;
    bucket.last = position;
    if (bucket.bytes >= bucket_bytes) buckets.push_back(std::exchange(bucket, {}).members);
  }
  std::vector<Open> rest;
  for (auto& [region, bucket] : open) {
    if (!bucket.members.empty()) rest.push_back(std::move(bucket));
  }
  std::sort(rest.begin(), rest.end(), [](const Open& a, const Open& b) { return a.last < b.last; });
  for (Open& bucket : rest) buckets.push_back(std::move(bucket.members));
  return buckets;
}

}  // namespace paceline
