// From what a user writes after --data to examples in memory.
#pragma once

#include <string>

#include "paceline/data/dataset.hpp"

namespace paceline {

// Takes the forms that data_help lists. Error{invalid} with one sentence for everything that can be wrong.
DataSplit open_data(const std::string& spec);

// One line.
std::string data_help();

}  // namespace paceline
