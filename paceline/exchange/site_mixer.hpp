// SiteMixer: local SGD between sites. The ranks of a site make their steps together, by gradients that meet there, and
// hold the same parameters; after every K steps the sites' parameters are averaged, each weighted by its number of
// workers (hierarchical local SGD: Lin et al. 2020, "Don't use large mini-batches, use local SGD").
//
// Since a site's ranks hold the same bits, one of them, the first, is enough to meet the other sites; it then gives the
// average to its site. Per meeting and of m sites, each first rank sends 2S(m-1)/m bytes between sites and takes part
// in a sum of 16 bytes; inside a site there is a broadcast of S. Afterwards all ranks of all sites have the same bits.
//
// A round is what lies between two meetings. The average is over the sites that have made a step in it. Slow momentum
// is as in LocalMixer.
#pragma once

#include <cstdint>

#include "paceline/exchange/mixer.hpp"
#include "paceline/exchange/sites.hpp"
#include "paceline/exchange/slow_momentum.hpp"

namespace paceline {

class SiteMixer final : public Mixer {
 public:
  // A collective call of all ranks of `all`, of which `sites` tells where they are. `between` is what
  // check_between_sites has let pass. Between calls the ranks of a site change their parameters alike.
  SiteMixer(Communicator& all, Sites sites, const Plan& between, MixerOptions options);

  void end_update(std::int64_t step) override;
  void spread(const std::function<void(Communicator&)>& broadcast) override;

 private:
  int meet(Batches batches) override;
  void average(std::int64_t weights);

  const Sites sites_;
  const int own_;     // site
  const bool first_;  // of it
  const bool alike_;  // all sites have as many workers
  const std::int64_t steps_;
  Communicator inside_;   // the ranks of this site
  Communicator between_;  // the first ranks of all sites; of others one that is not used
  const Algorithm algorithm_;
  std::int64_t weight_ = 1;  // of this site: its workers, or one where all sites have as many
  std::int64_t made_ = 0;    // steps of this round
  SlowMomentum slow_;        // of first ranks
};

}  // namespace paceline
