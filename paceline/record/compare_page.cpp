#include "paceline/record/compare_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/record/compare_tables.hpp"
#include "paceline/record/html.hpp"
#include "paceline/record/page_parts.hpp"
#include "paceline/record/report_page.hpp"

namespace paceline {
namespace {

using nlohmann::ordered_json;

std::size_t most_seeds(const CompareInput& input) {
  std::size_t most = 0;
  for (const ComparedPlan& plan : input.plans) most = std::max(most, plan.runs.size());
  return most;
}

// Mean, least and most; without an interval only the mean.
ordered_json band_json(const Spread& spread) {
  if (!spread.has_interval()) return ordered_json::array({spread.mean});
  return ordered_json::array({spread.mean, spread.least, spread.most});
}

std::string subtitle(const CompareInput& input) {
  const std::size_t seeds = most_seeds(input);
  std::string text = fmt::format("{} seed{}", seeds, seeds == 1 ? "" : "s");
  if (input.options.target) text += " · target " + input.options.target->text();
  if (input.options.price > 0) text += fmt::format(" · {} per worker and hour", input.options.price);
  return text;
}

std::string status(const CompareInput& input, const std::vector<PlanFigures>& figures) {
  const bool failed =
      std::any_of(figures.begin(), figures.end(), [](const PlanFigures& plan) { return plan.failed > 0; });
  const std::string text = !input.ending.empty() ? input.ending : failed ? "some runs failed" : "complete";
  return fmt::format("<span class=\"status{}\">{}</span>", failed || !input.ending.empty() ? " bad" : "",
                     html_escaped(text));
}

std::string failures(const std::vector<ComparedPlan>& plans) {
  std::string html;
  for (const ComparedPlan& plan : plans) {
    for (const ComparedRun& run : plan.runs) {
      if (run.failure.empty()) continue;
      html += fmt::format("<p class=\"warning\">{} failed with seed {}: {}</p>\n", html_escaped(plan.name), run.seed,
                          html_escaped(run.failure));
    }
  }
  return html;
}

std::string band_note(const CompareInput& input) {
  std::string note = most_seeds(input) < 2
                         ? "One seed: there is nothing to draw a band of."
                         : "Curves are means over the seeds that got that far, bands reach from the least to the most.";
  if (input.options.target) note += " A dashed line is the target.";
  return note;
}

std::string plan_table(const CompareInput& input) {
  std::vector<Cells> rows;
  for (const ComparedPlan& plan : input.plans) rows.push_back({plan.name, plan.options.empty() ? "–" : plan.options});
  if (!input.common.empty()) rows.push_back({"all of them", input.common});
  return html_table("keys", {"Plan", "Options of paceline train"}, rows);
}

}  // namespace

ordered_json compare_data(const CompareInput& input) {
  const Score score = goal_of(input.plans);
  ordered_json plans = ordered_json::array();
  for (const ComparedPlan& plan : input.plans) {
    ordered_json points = ordered_json::array();
    for (const BandPoint& point : band_of(plan)) {
      points.push_back({{"seconds", point.seconds},
                        {"epochs", point.epochs},
                        {"bytes", point.bytes},
                        {"loss", band_json(point.loss)},
                        {"quality", band_json(score == Score::rmse ? point.rmse : point.accuracy)}});
    }
    plans.push_back({{"name", plan.name}, {"points", std::move(points)}});
  }
  ordered_json data = {{"goal", score == Score::rmse ? "rmse" : "accuracy"}, {"plans", std::move(plans)}};
  if (const auto& target = input.options.target)
    data["target"] = {{"metric", target->text().substr(0, target->text().find('='))}, {"value", target->value}};
  return data;
}

std::string render_comparison(const CompareInput& input) {
  const Score score = goal_of(input.plans);
  const std::vector<PlanFigures> figures = figures_of(input.plans, input.options);
  const CompareTable table = compare_table(figures, input.options, score);
  const std::size_t plans = input.plans.size();
  return filled_page(kComparePage, {{"style", std::string(kReportStyle)},
                                    {"script", std::string(kCompareScript)},
                                    {"title", fmt::format("{} plan{} compared", plans, plans == 1 ? "" : "s")},
                                    {"status", status(input, figures)},
                                    {"subtitle", html_escaped(subtitle(input))},
                                    {"verdict", html_escaped(verdict_of(figures, input.options, score))},
                                    {"failures", failures(input.plans)},
                                    {"table", html_table("figures", table.head, table.rows)},
                                    {"goal", score == Score::rmse ? "Root mean squared error" : "Accuracy"},
                                    {"bands", band_note(input)},
                                    {"plans", plan_table(input)},
                                    {"data", script_json(compare_data(input))}});
}

}  // namespace paceline
