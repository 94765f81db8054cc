// How parameters are grouped into buckets. Pure arithmetic, no torch.
#pragma once

#include <cstddef>
#include <vector>

namespace paceline {

struct BucketMember {
  std::size_t bytes = 0;
  std::size_t region = 0;  // only members of one region lie side by side
};

// For each bucket the indices of its members, in the order in which they lie. `order` is the one in which gradients
// become complete. A bucket is closed when it has `bucket_bytes` or more; buckets are numbered by when they are closed,
// so that they tend to become complete in the order of their numbers.
std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<BucketMember>& members,
                                                   const std::vector<std::size_t>& order, std::size_t bucket_bytes);

}  // namespace paceline
