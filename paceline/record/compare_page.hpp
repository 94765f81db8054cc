// The page of a comparison: one file of HTML, complete in itself, drawn as the report is.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/record/compare_statistics.hpp"

namespace paceline {

struct CompareInput {
  std::vector<ComparedPlan> plans = {};
  CompareOptions options = {};
  std::string common = {};  // the options that all plans share, as given
  std::string ending = {};  // "interrupted"; empty: all runs were made
};

std::string render_comparison(const CompareInput& input);

// What its script draws.
nlohmann::ordered_json compare_data(const CompareInput& input);

}  // namespace paceline
