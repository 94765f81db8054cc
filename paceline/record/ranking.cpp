#include "paceline/record/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {

double area_under_curve(std::vector<ScoredExample> examples) {
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  if (std::any_of(examples.begin(), examples.end(), [](const auto& one) { return std::isnan(one.score); }))
    return kUndefined;
  std::sort(examples.begin(), examples.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
  double ones = 0, zeros = 0, won = 0;
  for (auto first = examples.begin(); first != examples.end();) {
    double ones_here = 0, zeros_here = 0;
    auto last = first;
    for (; last != examples.end() && last->score == first->score; ++last)
      (last->label > 0.5F ? ones_here : zeros_here) += 1;
    won += ones_here * (zeros + zeros_here / 2);
    ones += ones_here;
    zeros += zeros_here;
    first = last;
  }
  return ones > 0 && zeros > 0 ? won / (ones * zeros) : kUndefined;
}

}  // namespace paceline
