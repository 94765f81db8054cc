#include "paceline/record/compare_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/record/figures.hpp"

namespace paceline {
namespace {

using nlohmann::ordered_json;

// "93.12 ± 0.41", the digits of both alike; "93.12" of a single seed, "–" of none.
std::string spread_text(const Spread& spread, double factor, int decimals) {
  if (spread.count == 0) return "–";
  const std::string mean = fmt::format("{:.{}f}", spread.mean * factor, decimals);
  return spread.has_interval() ? fmt::format("{} ± {:.{}f}", mean, spread.deviation * factor, decimals) : mean;
}

// Of seconds and other sizes that may be small or large.
std::string scaled_text(const Spread& spread) {
  return spread_text(spread, 1,
                     std::abs(spread.mean) < 1     ? 3
                     : std::abs(spread.mean) < 10  ? 2
                     : std::abs(spread.mean) < 100 ? 1
                                                   : 0);
}

std::string bytes_text(const Spread& spread) {
  return spread.count == 0 ? "–" : byte_count(static_cast<std::uint64_t>(std::max(0.0, spread.mean)));
}

std::string cost_text(const Spread& spread) {
  if (spread.count == 0) return "–";
  return spread.has_interval() ? fmt::format("{:.3g} ± {:.2g}", spread.mean, spread.deviation)
                               : fmt::format("{:.3g}", spread.mean);
}

std::string seeds_text(const PlanFigures& plan) {
  return plan.failed == 0 ? fmt::format("{}", plan.complete)
                          : fmt::format("{}, {} failed", plan.complete + plan.failed, plan.failed);
}

std::string reached_text(const PlanFigures& plan, const Spread& spread) {
  const std::string text = scaled_text(spread);
  return plan.reached == plan.complete || plan.reached == 0
             ? text
             : fmt::format("{} ({} of {})", text, plan.reached, plan.complete);
}

Cells head_of(const CompareOptions& options, Score score) {
  Cells head = {"plan", "seeds", score == Score::rmse ? "RMSE" : "accuracy %", "loss", "seconds", "samples/s", "sent"};
  if (options.target) {
    head.push_back(fmt::format("s to {}", options.target->text()));
    head.push_back("epochs to it");
    head.push_back("sent to it");
  }
  if (options.price > 0) head.push_back(options.target ? "cost to it" : "cost");
  return head;
}

Cells row_of(const PlanFigures& plan, const CompareOptions& options, Score score) {
  Cells row = {plan.name,
               seeds_text(plan),
               score == Score::rmse ? spread_text(plan.rmse, 1, 4) : spread_text(plan.accuracy, 100, 2),
               spread_text(plan.loss, 1, 4),
               scaled_text(plan.seconds),
               plan.samples_per_s.count == 0 ? "–" : rounded(plan.samples_per_s.mean),
               bytes_text(plan.bytes)};
  if (options.target) {
    row.push_back(reached_text(plan, plan.seconds_to));
    row.push_back(scaled_text(plan.epochs_to));
    row.push_back(bytes_text(plan.bytes_to));
  }
  if (options.price > 0) row.push_back(cost_text(plan.cost));
  return row;
}

// All that is written here takes one column per code point.
std::size_t display_columns(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string line_of(const Cells& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string room(widths[i] - display_columns(cells[i]), ' ');
    line += i == 0 ? cells[i] + room : "  " + room + cells[i];
  }
  return line + "\n";
}

ordered_json spread_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"least", spread.least}, {"most", spread.most}};
}

}  // namespace

CompareTable compare_table(const std::vector<PlanFigures>& plans, const CompareOptions& options, Score score) {
  CompareTable table{.head = head_of(options, score), .rows = {}};
  for (const PlanFigures& plan : plans) table.rows.push_back(row_of(plan, options, score));
  return table;
}

std::string terminal_table(const CompareTable& table) {
  std::vector<std::size_t> widths(table.head.size());
  const auto widen = [&widths](const Cells& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_columns(cells[i]));
  };
  widen(table.head);
  for (const Cells& row : table.rows) widen(row);
  std::string text = line_of(table.head, widths);
  for (const Cells& row : table.rows) text += line_of(row, widths);
  return text;
}

ordered_json compare_json(const std::vector<PlanFigures>& plans, const CompareOptions& options, Score score) {
  ordered_json list = ordered_json::array();
  for (const PlanFigures& plan : plans) {
    ordered_json one = {{"name", plan.name}, {"complete", plan.complete}, {"failed", plan.failed}};
    if (score == Score::rmse) {
      one["rmse"] = spread_json(plan.rmse);
    } else {
      one["accuracy"] = spread_json(plan.accuracy);
    }
    one["loss"] = spread_json(plan.loss);
    one["seconds"] = spread_json(plan.seconds);
    one["samples_per_s"] = spread_json(plan.samples_per_s);
    one["bytes"] = spread_json(plan.bytes);
    if (options.target) {
      one["reached"] = plan.reached;
      one["seconds_to"] = spread_json(plan.seconds_to);
      one["epochs_to"] = spread_json(plan.epochs_to);
      one["bytes_to"] = spread_json(plan.bytes_to);
    }
    if (options.price > 0) one["cost"] = spread_json(plan.cost);
    list.push_back(std::move(one));
  }
  ordered_json json = {{"plans", std::move(list)}};
  if (options.target) json["target"] = options.target->text();
  json["verdict"] = verdict_of(plans, options, score);
  return json;
}

}  // namespace paceline
