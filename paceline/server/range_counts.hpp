// RangeCounts: how often each element of a range has been updated, as a function that is constant between a few bounds.
// Whoever updates the same ranges again and again has as many bounds as ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace paceline {

class RangeCounts {
 public:
  explicit RangeCounts(std::uint64_t size) : counts_{{0, 0}, {size, 0}} {}

  // Adds one to [first, last) and calls visit(first, last, count) for each part that has one count.
  template <class Visit>
  void add(std::uint64_t first, std::uint64_t last, Visit visit) {
    if (first == last) return;
    const auto end = bound(last);
    for (auto part = bound(first); part != end; ++part) visit(part->first, std::next(part)->first, ++part->second);
  }

  // The parts of [first, last) as they are, for each visit(first, last, count).
  template <class Visit>
  void visit(std::uint64_t first, std::uint64_t last, Visit visit) const {
    if (first == last) return;
    for (auto part = std::prev(counts_.upper_bound(first)); part->first < last; ++part)
      visit(std::max(first, part->first), std::min(last, std::next(part)->first), part->second);
  }

  // Each element of [first, last) has been updated so often. Parts that are alike become one.
  void set(std::uint64_t first, std::uint64_t last, std::uint64_t count) {
    if (first == last) return;
    const auto end = bound(last);
    const auto part = bound(first);
    part->second = count;
    counts_.erase(std::next(part), end);
    if (std::next(end) != counts_.end() && end->second == count) counts_.erase(end);
    if (part != counts_.begin() && std::prev(part)->second == count) counts_.erase(part);
  }

 private:
  using Counts = std::map<std::uint64_t, std::uint64_t>;  // from here to the next
  Counts::iterator bound(std::uint64_t at) {
    const auto next = counts_.lower_bound(at);
    if (next != counts_.end() && next->first == at) return next;
    return counts_.emplace_hint(next, at, std::prev(next)->second);
  }
  Counts counts_;
};

}  // namespace paceline
