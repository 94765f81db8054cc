// How the workers of a run come to begin with the same things: the same words, the same data, one run folder. All ranks
// call the same; what is wrong on one of them is an Error{invalid} on all, which names the first rank that has it.
//
// Nothing assumes that the ranks share a file system. The run folder is rank 0's; the data must be on every host.
#pragma once

#include <optional>
#include <string>

#include "paceline/collective/communicator.hpp"
#include "paceline/data/dataset.hpp"
#include "paceline/exchange/sites.hpp"
#include "paceline/launch/join.hpp"
#include "paceline/torch/train_config.hpp"

namespace paceline {

// `refusal`: why this rank cannot begin, as a sentence; empty: it can. Throws on every rank if one cannot.
void refuse_together(Job& job, const std::string& refusal);

// Which workers are at which site, if there is a plan between sites.
std::optional<Sites> find_sites_together(Job& job, const TrainConfig& config);

// The data, which is the same on all ranks.
DataSplit open_data_together(Job& job, const std::string& spec);

// Of workers that were started elsewhere nobody knew the number and the data; rank 0 settles what depends on them, and
// opens the run folder. Also gives each worker its share of its host's cores, if nobody said how many threads to take.
void settle_together(Job& job, TrainConfig& config, const DataSplit& data);

}  // namespace paceline
