// What has to be known of the data and of the run folder before a run can begin. Without torch: `paceline train` does
// it before it starts workers on this machine, and rank 0 does it where workers have been started elsewhere.
#pragma once

#include "paceline/data/dataset.hpp"
#include "paceline/torch/train_config.hpp"

namespace paceline {

// Fills in what depends on the data and on the number of workers, which is in `config`, and opens the run folder with
// its config.json. A folder that is refused stays as it was. Throws Error{invalid}; Error{system}: a full disk.
void settle(TrainConfig& config, const DataSplit& data);

}  // namespace paceline
