// Sampler: which examples each worker takes in each step of each epoch. Pure: every worker computes the same answer
// from the same options, so that nothing has to be sent. Owned by one thread while begin_epoch runs, thread-safe to
// read otherwise.
//
// Each epoch is a new permutation of all examples, cut into one slice per step and the slice into one part per worker.
// The slices depend on batch * workers only; every example comes exactly once per epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

inline constexpr int kWholeSet = 0;

struct SamplerOptions {
  std::size_t samples = 0;
  int batch = 64;  // of one worker; kWholeSet: a step takes all examples
  int workers = 1;
  std::uint64_t seed = 1;
  // Examples that are each worker's own, worker by worker (deal.hpp): an epoch is a new permutation of each worker's.
  // Empty: all are everybody's.
  std::vector<std::uint32_t> dealt = {};
};

class Sampler {
 public:
  // Error{invalid} if there are not enough samples for one step of all workers.
  explicit Sampler(const SamplerOptions& options);

  // `consumed` examples of this epoch are done already, maybe by another number of workers. Error{invalid} if these are
  // more than there are. Costs O(samples).
  void begin_epoch(int epoch, std::size_t consumed = 0);

  // Of this epoch, after the `consumed` ones; step 0 is the first of those. None before begin_epoch.
  std::size_t steps() const;
  // Examples of all workers together. The last step may have fewer than the others.
  std::size_t global_size(std::size_t step) const;
  // This worker's part. Of a smaller last step the parts differ by one at most, and may be empty.
  std::span<const std::uint32_t> indices(std::size_t step, int worker) const;
  // How much of the epoch is done after this step: what begin_epoch takes to go on from there.
  std::size_t consumed_after(std::size_t step) const;

 private:
  std::size_t first_of(std::size_t step) const;
  void shuffle_all(int epoch);
  void shuffle_dealt(int epoch);

  const SamplerOptions options_;
  const std::size_t slice_;  // examples of a full step
  std::size_t consumed_ = 0;
  std::vector<std::uint32_t> order_;  // empty before begin_epoch
};

// [first, last)
struct Range {
  std::size_t first;
  std::size_t last;
};
// The part of `worker` when `samples` are dealt out in contiguous parts that differ by one at most, the larger first.
Range share_of(std::size_t samples, int workers, int worker);

}  // namespace paceline
