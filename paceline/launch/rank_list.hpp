// list_ranks: ranks in a sentence: "rank 3", "ranks 1, 3", "ranks 0, 1, … and 12 more".
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "paceline/core/error.hpp"

namespace paceline {

inline std::string list_ranks(const std::vector<Rank>& ranks) {
  constexpr std::size_t kShown = 16;
  const std::size_t shown = std::min(kShown, ranks.size());
  std::string text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                                 fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace paceline
