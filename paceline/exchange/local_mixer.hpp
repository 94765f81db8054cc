// LocalMixer: K steps of each rank on its own, then the average of the parameters (local SGD: Stich 2019; of a share
// of the ranks, federated averaging: McMahan et al. 2017; K without end, one-shot averaging: Zinkevich et al. 2010).
// Per meeting one allreduce of the parameters, 2S(n-1)/n bytes per rank, and one of 16 bytes.
//
// A round is what lies between two meetings. The average is over the ranks that have made a step in it. SlowMomentum
// may take the round as one large step, on every rank alike.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/exchange/mixer.hpp"
#include "paceline/exchange/slow_momentum.hpp"

namespace paceline {

class LocalMixer final : public Mixer {
 public:
  LocalMixer(Communicator& communicator, Algorithm algorithm, std::int64_t steps, MixerOptions options);

  bool takes_part(std::int64_t step) override;
  void end_update(std::int64_t step) override;

 private:
  int meet(Batches batches) override;
  void average(int ranks, bool counts);

  const Algorithm algorithm_;
  const std::int64_t steps_;
  std::int64_t made_ = 0;          // steps of this round
  std::int64_t round_began_ = -1;  // in which step
  bool chosen_ = true;             // for this round
  SlowMomentum slow_;
};

// The ranks, of n, that take part in the round that begins in `step`: a share of them, at least one, in ascending
// order.
std::vector<int> participants(double share, int n, std::uint64_t seed, std::int64_t step);

}  // namespace paceline
