#include "paceline/record/trace_excerpt.hpp"

#include <algorithm>
#include <map>

namespace paceline {
namespace {

constexpr std::size_t kMostSteps = 4;
constexpr std::size_t kMostEvents = 12000;  // of all ranks: about half a megabyte of the page
constexpr std::size_t kLeastOfRank = 40;

struct Window {
  TimePoint start{}, end{};
  Duration length() const { return end - start; }
};

bool part_of_step(const TraceEvent& event) {
  return event.activity != Activity::evaluate && event.activity != Activity::save &&
         event.activity != Activity::reduction;
}

TimePoint end_of(const TraceEvent& event) { return event.start + std::max(event.length, Duration(0)); }

Window recorded(const RankTrace& rank) {
  Window window = {rank.events.front().start, end_of(rank.events.front())};
  for (const TraceEvent& event : rank.events) {
    window = {std::min(window.start, event.start), std::max(window.end, end_of(event))};
  }
  return window;
}

// When each step of a rank began, in order of time.
std::vector<TimePoint> step_starts(const RankTrace& rank) {
  std::map<std::int64_t, TimePoint> starts;
  for (const TraceEvent& event : rank.events) {
    if (!part_of_step(event)) continue;
    const auto [at, fresh] = starts.try_emplace(event.step, event.start);
    if (!fresh) at->second = std::min(at->second, event.start);
  }
  std::vector<TimePoint> ordered;
  for (const auto& [step, start] : starts) ordered.push_back(start);
  std::sort(ordered.begin(), ordered.end());
  return ordered;
}

// The time that all ranks have recorded. Their rings end at the same time but begin at different ones.
Window shared(const std::vector<RankTrace>& ranks) {
  Window window = {TimePoint::min(), TimePoint::max()};
  for (const RankTrace& rank : ranks) {
    if (rank.events.empty()) continue;
    const Window own = recorded(rank);
    window = {std::max(window.start, own.start), std::min(window.end, own.end)};
  }
  return window;
}

std::vector<Window> stretches(const std::vector<TimePoint>& starts, std::size_t steps) {
  std::vector<Window> windows;
  for (std::size_t i = 0; i + steps < starts.size(); ++i) windows.push_back({starts[i], starts[i + steps]});
  return windows;
}

Window choose(const std::vector<RankTrace>& ranks, const RankTrace& reference, std::size_t steps) {
  std::vector<Window> windows = stretches(step_starts(reference), steps);
  const Window common = shared(ranks);
  std::vector<Window> seen_by_all;
  for (const Window& window : windows) {
    if (window.start >= common.start && window.end <= common.end) seen_by_all.push_back(window);
  }
  if (!seen_by_all.empty()) windows = std::move(seen_by_all);
  if (windows.empty()) return recorded(reference);
  const auto middle = windows.begin() + static_cast<std::ptrdiff_t>(windows.size() / 2);
  std::nth_element(windows.begin(), middle, windows.end(),
                   [](const Window& a, const Window& b) { return a.length() < b.length(); });
  return *middle;
}

RankTrace cut(const RankTrace& rank, const Window& window) {
  RankTrace part = {rank.rank, rank.host, rank.pid, {}};
  for (TraceEvent event : rank.events) {
    const TimePoint start = std::max(event.start, window.start), end = std::min(end_of(event), window.end);
    if (start >= end) continue;
    event.start = start;
    event.length = end - start;
    part.events.push_back(event);
  }
  std::stable_sort(part.events.begin(), part.events.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return part;
}

TraceExcerpt excerpt(const std::vector<RankTrace>& ranks, const Window& window) {
  TraceExcerpt result = {window.start, window.end, {}};
  for (const RankTrace& rank : ranks) result.ranks.push_back(cut(rank, window));
  return result;
}

std::size_t most_events(const TraceExcerpt& excerpt) {
  std::size_t most = 0;
  for (const RankTrace& rank : excerpt.ranks) most = std::max(most, rank.events.size());
  return most;
}

}  // namespace

TraceExcerpt typical_stretch(const std::vector<RankTrace>& ranks) {
  const auto reference =
      std::find_if(ranks.begin(), ranks.end(), [](const auto& rank) { return !rank.events.empty(); });
  if (reference == ranks.end()) return {};
  const std::size_t limit = std::max(kMostEvents / ranks.size(), kLeastOfRank);
  TraceExcerpt result;
  for (std::size_t steps = kMostSteps; steps > 0; --steps) {
    result = excerpt(ranks, choose(ranks, *reference, steps));
    if (most_events(result) <= limit) return result;
  }
  for (RankTrace& rank : result.ranks) rank.events.resize(std::min(rank.events.size(), limit));
  return result;
}

}  // namespace paceline
