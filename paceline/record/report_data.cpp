#include "paceline/record/report_data.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "paceline/record/trace_excerpt.hpp"

namespace paceline {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 600;
constexpr std::size_t kMostColumns = 120;  // of the map of waiting: one per point and rank

template <typename Value>
double finite_mean(std::span<const StepPoint> points, Value value) {
  double sum = 0;
  int count = 0;
  for (const StepPoint& point : points) {
    if (!std::isfinite(value(point))) continue;
    sum += value(point);
    ++count;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

// How many points become one, so that at most `most` are left.
std::size_t points_together(const std::vector<StepPoint>& points, std::size_t most) {
  return (points.size() + most - 1) / most;
}

StepPoint merged(std::span<const StepPoint> points) {
  StepPoint mean = points.back();
  mean.loss = finite_mean(points, [](const StepPoint& point) { return point.loss; });
  mean.samples_per_s = finite_mean(points, [](const StepPoint& point) { return point.samples_per_s; });
  for (std::size_t rank = 0; rank < mean.wait_shares.size(); ++rank) {
    mean.wait_shares[rank] = static_cast<float>(finite_mean(points, [rank](const StepPoint& point) {
      return rank < point.wait_shares.size() ? point.wait_shares[rank] : std::numeric_limits<float>::quiet_NaN();
    }));
  }
  return mean;
}

// Five digits are more than a chart shows, and a third of the page's size. NaN passes and becomes null.
double shortened(double value) {
  constexpr double kLargestScale = 1e20;
  if (!std::isfinite(value) || value == 0) return value;
  const double scale = std::pow(10, 4 - std::floor(std::log10(std::abs(value))));
  return scale >= 1 && scale < kLargestScale ? std::round(value * scale) / scale : value;
}

ordered_json curve_points(const std::vector<StepPoint>& points) {
  ordered_json list = ordered_json::array();
  for (const StepPoint& point : thinned(points, kMostPoints)) {
    list.push_back({point.step, shortened(point.seconds), shortened(point.loss), shortened(point.samples_per_s)});
  }
  return list;
}

ordered_json wait_columns(const std::vector<StepPoint>& points) {
  ordered_json list = ordered_json::array();
  for (const StepPoint& point : thinned(points, kMostColumns)) {
    ordered_json shares = ordered_json::array();
    for (const float share : point.wait_shares) shares.push_back(shortened(share));
    list.push_back({{"step", point.step}, {"shares", std::move(shares)}});
  }
  return list;
}

ordered_json epoch_points(const std::vector<EpochMetrics>& epochs) {
  ordered_json list = ordered_json::array();
  for (const EpochMetrics& epoch : epochs) {
    ordered_json point = to_json(epoch);
    point.erase("workers");
    list.push_back(std::move(point));
  }
  return list;
}

// Nanoseconds from the start: integers are exact and short.
ordered_json trace_json(const std::vector<RankTrace>& traces) {
  const TraceExcerpt excerpt = typical_stretch(traces);
  ordered_json ranks = ordered_json::array();
  for (const RankTrace& rank : excerpt.ranks) {
    ordered_json events = ordered_json::array();
    for (const TraceEvent& event : rank.events) {
      events.push_back({static_cast<int>(event.activity), (event.start - excerpt.start).count(), event.length.count(),
                        event.step, event.bucket});
    }
    ranks.push_back({{"rank", rank.rank}, {"host", rank.host}, {"events", std::move(events)}});
  }
  return {{"length", (excerpt.end - excerpt.start).count()}, {"ranks", std::move(ranks)}};
}

}  // namespace

std::vector<StepPoint> thinned(const std::vector<StepPoint>& points, std::size_t most) {
  const std::size_t together = points_together(points, most);
  if (together <= 1) return points;
  std::vector<StepPoint> fewer;
  for (std::size_t at = 0; at < points.size(); at += together) {
    fewer.push_back(merged(std::span(points).subspan(at, std::min(together, points.size() - at))));
  }
  return fewer;
}

ordered_json chart_data(const ReportInput& input) {
  ordered_json activities = ordered_json::array();
  for (const Activity activity : kAllActivities) activities.push_back(name(activity));
  return {{"activities", std::move(activities)},
          {"points", curve_points(input.points)},
          {"points_together", points_together(input.points, kMostPoints)},
          {"waits", wait_columns(input.points)},
          {"epochs", epoch_points(input.epochs)},
          {"trace", trace_json(input.traces)}};
}

}  // namespace paceline
