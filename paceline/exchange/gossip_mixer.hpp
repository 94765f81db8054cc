// GossipMixer: after every step each rank averages its parameters with its neighbours' (D-PSGD, Lian et al. 2017, where
// each steps first and mixes then: x <- W (x - r g)). S bytes sent to each neighbour per step, one or two of them
// whatever the number of ranks; nobody waits for ranks that are no neighbours.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/exchange/mixer.hpp"

namespace paceline {

class GossipMixer final : public Mixer {
 public:
  // `algorithm`: when all meet.
  GossipMixer(Communicator& communicator, Algorithm algorithm, GossipGraph graph, MixerOptions options);

  void end_update(std::int64_t step) override;

 private:
  int meet(Batches batches) override;
  static constexpr std::size_t kMostNeighbours = 2;
  void mix_range(const TensorView& range, const std::vector<int>& neighbours);

  const Algorithm algorithm_;
  const GossipGraph graph_;
  Arena sent_;      // the parameters, once for each neighbour; of the largest range
  Arena received_;  // the neighbours'
};

}  // namespace paceline
