// How many threads a worker takes that was started by somebody who did not say.
#pragma once

#include <optional>
#include <vector>

#include "paceline/launch/cores.hpp"

namespace paceline {

// A worker's part of the cores that it may run on: each core is shared by the workers of the host that may use it,
// which mpirun may have bound to all cores, to a socket or to one. `of_host` holds the cores of all workers of the
// host, this one's among them. `quota`: how many cores' worth of time the host's workers may use together. At least 1.
int fair_threads(const Cores& own, const std::vector<Cores>& of_host, std::optional<double> quota);

// LibTorch and OpenBLAS each keep their own number.
void limit_threads(int threads);

}  // namespace paceline
