#include "paceline/record/compare_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kSecondsPerHour = 3600;

double measured(const RunPoint& point, CompareTarget::Metric metric) {
  switch (metric) {
    case CompareTarget::Metric::accuracy: return point.driving_accuracy;
    case CompareTarget::Metric::loss: return point.driving_loss;
    case CompareTarget::Metric::rmse: return std::isfinite(point.rmse) ? std::sqrt(point.driving_loss) : kUnknown;
  }
  return kUnknown;
}

bool meets(double value, const CompareTarget& target) {
  return target.metric == CompareTarget::Metric::accuracy ? value >= target.value : value <= target.value;
}

double between(double before, double after, double fraction) { return before + (after - before) * fraction; }

double final_figure(const ComparedRun& run, const char* key) {
  if (!run.final.is_object() || !run.final.contains(key) || !run.final[key].is_number()) return kUnknown;
  return run.final[key].get<double>();
}

template <typename Value>
Spread spread_over(const std::vector<ComparedRun>& runs, Value value) {
  std::vector<double> values;
  for (const ComparedRun& run : runs) {
    if (run.failure.empty()) values.push_back(value(run));
  }
  return spread_of(values);
}

double last_rmse(const ComparedRun& run) {
  const double told = final_figure(run, "test_rmse");
  return std::isfinite(told) || run.epochs.empty() ? told : run.epochs.back().test_rmse.value_or(kUnknown);
}

// Only complete runs of a plan none of whose seeds missed it.
bool reached_always(const PlanFigures& plan) {
  return plan.complete > 0 && plan.failed == 0 && plan.reached == plan.complete;
}

PlanFigures figures_of(const ComparedPlan& plan, const CompareOptions& options) {
  PlanFigures figures{.name = plan.name};
  std::vector<double> seconds, epochs, bytes, cost;
  for (const ComparedRun& run : plan.runs) {
    figures.failed += !run.failure.empty();
    if (!run.failure.empty()) continue;
    ++figures.complete;
    const auto there = options.target ? reach(run, *options.target) : std::nullopt;
    const double paid = options.target ? (there ? there->seconds : kUnknown) : final_figure(run, "seconds");
    cost.push_back(options.price * final_figure(run, "workers") * paid / kSecondsPerHour);
    if (!there) continue;
    ++figures.reached;
    seconds.push_back(there->seconds);
    epochs.push_back(there->epochs);
    bytes.push_back(there->bytes);
  }
  const auto of = [&plan](const char* key) {
    return spread_over(plan.runs, [key](const ComparedRun& run) { return final_figure(run, key); });
  };
  figures.accuracy = of("test_accuracy");
  figures.rmse = spread_over(plan.runs, last_rmse);
  figures.loss = of("test_loss");
  figures.seconds = of("seconds");
  figures.samples_per_s = of("samples_per_s");
  figures.bytes = of("bytes_sent");
  figures.seconds_to = spread_of(seconds);
  figures.epochs_to = spread_of(epochs);
  figures.bytes_to = spread_of(bytes);
  figures.cost = spread_of(cost);
  return figures;
}

// What plans are ranked by, and how it reads.
struct Ranking {
  Spread PlanFigures::*measure;
  bool largest_first = false;
  std::string (*text)(double);
  std::string first_at;  // "reaches accuracy=0.85 first", "has the highest test accuracy"
};

std::string seconds_text(double value) { return fmt::format("{:.{}f} s", value, value < 1 ? 3 : value < 10 ? 2 : 1); }
std::string percent_text(double value) { return fmt::format("{:.2f}%", 100 * value); }
std::string plain_text(double value) { return fmt::format("{:.4g}", value); }

Ranking ranking_by(const CompareOptions& options, Score score) {
  if (options.target)
    return {&PlanFigures::seconds_to, false, seconds_text, fmt::format("reaches {} first", options.target->text())};
  if (score == Score::rmse) return {&PlanFigures::rmse, false, plain_text, "has the smallest test RMSE"};
  return {&PlanFigures::accuracy, true, percent_text, "has the highest test accuracy"};
}

std::string interval_text(const Spread& spread, const Ranking& ranking) {
  const std::string mean = ranking.text(spread.mean);
  return spread.has_interval() ? fmt::format("{} ± {}", mean, ranking.text(spread.deviation)) : mean;
}

// "a", "a and b", "a, b and c", each with its figure.
std::string listed(const std::vector<const PlanFigures*>& plans, const Ranking& ranking) {
  std::string text;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    text += i == 0 ? "" : i + 1 == plans.size() ? " and " : ", ";
    text += fmt::format("{} ({})", plans[i]->name, interval_text(plans[i]->*ranking.measure, ranking));
  }
  return text;
}

std::string sentence_about(const std::vector<const PlanFigures*>& ranked, const Ranking& ranking) {
  const Spread& best = ranked[0]->*ranking.measure;
  std::string text = fmt::format("{} {}: {}", ranked[0]->name, ranking.first_at, interval_text(best, ranking));
  if (!best.has_interval()) text += " with a single seed";
  if (ranked.size() == 1) return text + ".";
  const Spread& second = ranked[1]->*ranking.measure;
  std::vector<const PlanFigures*> undecided;
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    if (overlap(best, ranked[i]->*ranking.measure)) undecided.push_back(ranked[i]);
  }
  if (!best.has_interval() || !second.has_interval())
    return text + fmt::format(", against {}; another seed may turn that round.", listed({ranked[1]}, ranking));
  if (undecided.empty())
    return text + fmt::format(", next is {}; the intervals do not overlap.", listed({ranked[1]}, ranking));
  return text + fmt::format("; its interval overlaps with that of {}, so these seeds do not decide between them.",
                            listed(undecided, ranking));
}

// Those who are not ranked, and why.
std::string left_out(const std::vector<PlanFigures>& plans, const CompareOptions& options) {
  std::string text;
  for (const PlanFigures& plan : plans) {
    const int runs = plan.complete + plan.failed;
    if (plan.failed > 0) {
      text += fmt::format(" {} failed with {} of {} seeds.", plan.name, plan.failed, runs);
    } else if (options.target && plan.reached < plan.complete) {
      text += plan.reached == 0
                  ? fmt::format(" {} did not reach it.", plan.name)
                  : fmt::format(" {} reached it with {} of {} seeds only.", plan.name, plan.reached, runs);
    }
  }
  return text;
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  Spread spread{.mean = kUnknown, .deviation = kUnknown, .least = kUnknown, .most = kUnknown};
  double sum = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    ++spread.count;
    sum += value;
    spread.least = spread.count == 1 ? value : std::min(spread.least, value);
    spread.most = spread.count == 1 ? value : std::max(spread.most, value);
  }
  if (spread.count == 0) return spread;
  spread.mean = sum / spread.count;
  if (spread.count < 2) return spread;
  double squares = 0;
  for (const double value : values) {
    if (std::isfinite(value)) squares += (value - spread.mean) * (value - spread.mean);
  }
  spread.deviation = std::sqrt(squares / (spread.count - 1));
  return spread;
}

bool overlap(const Spread& a, const Spread& b) {
  if (!a.has_interval() || !b.has_interval()) return false;
  return std::abs(a.mean - b.mean) <= a.deviation + b.deviation;
}

std::string CompareTarget::text() const {
  const char* name = metric == Metric::accuracy ? "accuracy" : metric == Metric::loss ? "loss" : "rmse";
  return fmt::format("{}={}", name, value);
}

CompareTarget parse_compare_target(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string metric = text.substr(0, equals);
  CompareTarget target;
  if (metric == "loss") target.metric = CompareTarget::Metric::loss;
  if (metric == "rmse") target.metric = CompareTarget::Metric::rmse;
  const bool known = metric == "accuracy" || metric == "loss" || metric == "rmse";
  const bool percent = metric == "accuracy" && text.ends_with('%');
  const char* first = text.data() + (equals == std::string::npos ? 0 : equals + 1);
  const char* last = text.data() + text.size() - (percent ? 1 : 0);
  const auto [end, error] = std::from_chars(first, last, target.value);
  if (percent) target.value /= 100;
  if (!known || equals == std::string::npos || error != std::errc{} || end != last || !std::isfinite(target.value))
    throw Error(Code::invalid, fmt::format("--to takes accuracy=X, loss=X or rmse=X, not '{}'", text));
  if (metric == "accuracy" && (target.value <= 0 || target.value > 1))
    throw Error(Code::invalid,
                fmt::format("an accuracy lies between 0 and 1 (or is 90%), in '--to {}' it does not", text));
  return target;
}

std::optional<Reached> reach(const ComparedRun& run, const CompareTarget& target) {
  const RunPoint* before = nullptr;
  const std::vector<RunPoint> points = points_of(run);
  for (const RunPoint& point : points) {
    const double value = measured(point, target.metric);
    if (!std::isfinite(value)) continue;
    if (!meets(value, target)) {
      before = &point;
      continue;
    }
    if (before == nullptr) return Reached{point.seconds, point.epochs, point.bytes};
    const double missed = measured(*before, target.metric);
    const double fraction = (target.value - missed) / (value - missed);
    return Reached{between(before->seconds, point.seconds, fraction), between(before->epochs, point.epochs, fraction),
                   between(before->bytes, point.bytes, fraction)};
  }
  return {};
}

std::vector<PlanFigures> figures_of(const std::vector<ComparedPlan>& plans, const CompareOptions& options) {
  std::vector<PlanFigures> all;
  for (const ComparedPlan& plan : plans) all.push_back(figures_of(plan, options));
  return all;
}

std::string verdict_of(const std::vector<PlanFigures>& plans, const CompareOptions& options, Score score) {
  const Ranking ranking = ranking_by(options, score);
  std::vector<const PlanFigures*> ranked;
  for (const PlanFigures& plan : plans) {
    const bool fit = options.target ? reached_always(plan) : plan.complete > 0 && plan.failed == 0;
    if (fit && (plan.*ranking.measure).count > 0) ranked.push_back(&plan);
  }
  std::sort(ranked.begin(), ranked.end(), [&](const PlanFigures* a, const PlanFigures* b) {
    const double left = (a->*ranking.measure).mean, right = (b->*ranking.measure).mean;
    return ranking.largest_first ? left > right : left < right;
  });
  if (!ranked.empty()) return sentence_about(ranked, ranking) + left_out(plans, options);
  if (options.target)
    return fmt::format("No plan reached {} with all its seeds.", options.target->text()) + left_out(plans, options);
  return "No plan has a result with all its seeds." + left_out(plans, options);
}

std::vector<BandPoint> band_of(const ComparedPlan& plan) {
  std::vector<std::vector<RunPoint>> by_evaluation;
  for (const ComparedRun& run : plan.runs) {
    if (!run.failure.empty()) continue;
    const std::vector<RunPoint> points = points_of(run);
    by_evaluation.resize(std::max(by_evaluation.size(), points.size()));
    for (std::size_t i = 0; i < points.size(); ++i) by_evaluation[i].push_back(points[i]);
  }
  std::vector<BandPoint> band;
  for (const std::vector<RunPoint>& points : by_evaluation) {
    const auto over = [&points](double RunPoint::*member) {
      std::vector<double> values;
      for (const RunPoint& point : points) values.push_back(point.*member);
      return spread_of(values);
    };
    band.push_back({.seconds = over(&RunPoint::seconds).mean,
                    .epochs = over(&RunPoint::epochs).mean,
                    .bytes = over(&RunPoint::bytes).mean,
                    .loss = over(&RunPoint::loss),
                    .accuracy = over(&RunPoint::accuracy),
                    .rmse = over(&RunPoint::rmse)});
  }
  return band;
}

}  // namespace paceline
