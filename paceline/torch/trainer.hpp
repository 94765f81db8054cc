// train: one worker's part of `paceline train`. Without torch in its header.
#pragma once

#include "paceline/launch/join.hpp"
#include "paceline/torch/train_config.hpp"

namespace paceline {

// Trains until the epochs are over, the target is reached or a signal asks for the end; leaves the run folder complete.
// All ranks get the same config; one without a number of workers is settled first, see start_together.hpp. Returns the
// number of the signal that has ended it, 0 if none has. Throws Error.
int train(Job& job, const TrainConfig& config);

}  // namespace paceline
