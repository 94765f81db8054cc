// MixChoices: what can be chosen of a Mixer beside the plan.
#pragma once

#include <cstdint>
#include <string_view>

#include "paceline/exchange/plan.hpp"

namespace paceline {

struct MixChoices {
  // With when=local: momentum of the averages (SlowMo, Wang et al. 2020); 0: none.
  double slow_momentum = 0;
  // With when=local: the share of ranks that take part in a round (McMahan et al. 2017), at least one, drawn anew for
  // each. The others keep still and get the average too.
  double participate = 1;
  std::uint64_t seed = 1;  // of what is drawn; the same on all ranks

  // With where=server: who applies gradients. automatic: servers, where they have an optimizer like the worker's,
  // except with ssp and essp, whose copies show a worker's own changes at once but not what servers make of its
  // gradients.
  enum class Apply { automatic, server, worker };
  Apply apply = Apply::automatic;
  bool divide_by_staleness = false;  // a gradient's rate, by how many updates it has missed (Zhang et al. 2016)
  double compensation = 0;           // lambda of delay compensation (DC-ASGD, Zheng et al. 2017); 0: none
  // Downpour SGD (Dean et al. 2012): steps between two pushes, whose gradients are averaged, and between two reads.
  int push_every = 1;
  int fetch_every = 1;
};
// "auto", "server", "worker"; Error{invalid}.
MixChoices::Apply parse_apply(std::string_view text);

// Throws Error{invalid} if the choices are none, or none for this plan.
void check(const Plan& plan, const MixChoices& choices);

}  // namespace paceline
