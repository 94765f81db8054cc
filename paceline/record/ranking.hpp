// How well scores order examples of two classes. Pure.
#pragma once

#include <vector>

namespace paceline {

struct ScoredExample {
  float score = 0;
  float label = 0;  // 1 or 0
};

// The area under the ROC curve: the chance that an example of class 1 has a higher score than one of class 0, where
// equal scores count half (Mann & Whitney 1947). NaN if there is no example of one of the classes, or a score is NaN.
// Sorts: n log n.
double area_under_curve(std::vector<ScoredExample> examples);

}  // namespace paceline
