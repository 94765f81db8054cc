// The plans that `paceline compare` is given: a file with one a line, NAME: OPTIONS OF paceline train. Everything that
// is wrong with them is found here, before anything runs.
#pragma once

#include <string>
#include <vector>

namespace paceline {

struct PlanLine {
  int line = 0;  // of the file, from 1
  std::string name = {};
  std::string options = {};              // as given
  std::vector<std::string> words = {};   // the same, split; quotes keep blanks together
  std::vector<std::string> merged = {};  // with the common options that the plan does not give itself: --flag=value
};

// Blank lines and those that begin with # are left out. Error{invalid} naming the line for one without a name, a name
// that cannot be a folder's or comes twice, and a quote that does not end; also if there is no plan at all.
std::vector<PlanLine> parse_plans(const std::string& text);

// Lets `paceline train` look at each plan with the common options, and at its data where that is on this machine. A
// plan's own options take the place of common ones. Error{invalid} naming the line. Options that compare itself sets,
// such as --out and --seed, are refused.
void check_plans(std::vector<PlanLine>& plans, const std::vector<std::string>& common);

}  // namespace paceline
