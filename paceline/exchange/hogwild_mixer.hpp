// HogwildMixer: all workers of a host change one set of parameters, without locks (Hogwild, Niu et al. 2011).
//
// Note [One set of parameters]. They lie in rank 0's memory, which all ranks have mapped. A rank computes with its own
// copy; after its step it adds to every shared element what the step has changed, if anything, and takes the shared
// value as its own. Shared elements are read and written as relaxed atomics, one by one: no element is ever half
// written, and what is undefined in C++ does not happen. But between a rank's reading and its writing another may have
// written, and that is lost. This is the algorithm's bargain, which pays where workers change different elements; with
// where=hogwild:locked a lock around each rank's additions keeps everything, for comparison. That models read their
// own copy, not the shared one, costs a pass over memory per step, and saves torch's kernels from a race.
//
// 2S bytes read and written in rank 0's memory per step, less what has not changed; S of memory on each rank.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/exchange/mixer.hpp"

namespace paceline {

class HogwildMixer final : public Mixer {
 public:
  // Throws Error{invalid} if the ranks do not share memory.
  HogwildMixer(Communicator& communicator, bool locked, MixerOptions options);
  ~HogwildMixer() override;

  void end_update(std::int64_t step) override;

 private:
  int meet(Batches batches) override;
  // Anew for each use: rank 0 may have failed and released it. Throws Error{peer_lost} then.
  std::byte* shared();
  void add_changes(std::byte* shared);
  void take_shared(const std::byte* shared);
  void lock();
  void unlock();
  std::uint64_t& lock_word();

  const bool locked_;
  Arena arena_;  // rank 0's: the ranges one after the other, then the lock
  std::uint64_t region_ = 0;
  std::vector<std::byte> before_;  // the own copy as it was before this step
};

}  // namespace paceline
