// The table of a comparison, for a terminal and for the page, and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/record/compare_statistics.hpp"
#include "paceline/record/html.hpp"

namespace paceline {

struct CompareTable {
  Cells head;
  std::vector<Cells> rows;  // one for each plan
};
CompareTable compare_table(const std::vector<PlanFigures>& plans, const CompareOptions& options, Score score);

// In columns, the first to the left and the others to the right.
std::string terminal_table(const CompareTable& table);

// One object: each plan's figures as {"mean", "deviation", "least", "most"}, NaN as null, and the verdict.
nlohmann::ordered_json compare_json(const std::vector<PlanFigures>& plans, const CompareOptions& options, Score score);

}  // namespace paceline
