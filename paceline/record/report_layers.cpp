#include "paceline/record/report_layers.hpp"

#include <fmt/format.h>

#include <limits>

#include "paceline/record/figures.hpp"
#include "paceline/record/html.hpp"
#include "paceline/record/straggler.hpp"

namespace paceline {
namespace {

std::string flops_text(double flops) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T"};
  std::size_t unit = 0;
  for (; flops >= 999.5 && unit + 1 < std::size(kUnits); ++unit) flops /= 1000;
  return rounded(flops) + kUnits[unit];
}

Cells layer_cells(const LayerCost& layer, const LayerShare& share) {
  Cells cells = {layer.name, with_thousands(layer.parameters), flops_text(layer.flops), percent(share.gradient),
                 time_span(share.compute_seconds)};
  for (const double communicate : share.communicate) cells.push_back(percent(communicate));
  return cells;
}

int workers_of(const ReportInput& input) {
  const auto& config = input.config;
  if (config.is_object() && config.contains("workers") && config["workers"].is_number_integer())
    return std::max(1, config["workers"].get<int>());
  return input.epochs.empty() ? 1 : static_cast<int>(std::max<std::size_t>(1, input.epochs.back().workers.size()));
}

std::string batch_of(const ReportInput& input) {
  const auto& config = input.config;
  if (!config.is_object() || !config.contains("batch") || !config["batch"].is_number_integer()) return {};
  const int batch = config["batch"].get<int>();  // 0 is the whole set
  return batch > 0 ? fmt::format(" with batch {}", batch) : "";
}

std::string formula(const ReportInput& input, int workers, double seconds) {
  if (workers == 1) return "A single worker sends nothing.";
  return fmt::format(
      "The columns of links say which share of a step {} workers{} would spend sending a layer's gradient: a ring "
      "sends 2S(n−1)/n bytes for the layer's S bytes (4 per parameter) at the link's rate, without latency and without "
      "overlap, against the layer's part, by its FLOPs, of the {} that a worker computed per step. Many parameters per "
      "FLOP ask for a quick network.",
      workers, batch_of(input), time_span(seconds));
}

}  // namespace

double compute_seconds_of(const ReportInput& input) {
  if (input.compute_seconds_per_step > 0) return input.compute_seconds_per_step;
  const std::vector<WorkerTime> workers = worker_totals(input.epochs);
  if (workers.empty() || input.epochs.back().step <= 0) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const WorkerTime& worker : workers) sum += worker.in(Activity::compute);
  return sum / static_cast<double>(workers.size()) / static_cast<double>(input.epochs.back().step);
}

std::string layer_section(const ReportInput& input) {
  if (input.layers.empty()) return {};
  const int workers = workers_of(input);
  const double seconds = compute_seconds_of(input);
  const LayerShares shares = layer_shares(input.layers, workers, seconds);
  Cells head = {"Layer", "Parameters", "FLOPs, forward", "Of the gradient", "Compute a step"};
  for (const int gigabits : kLinkGigabits) head.push_back(fmt::format("Sending, {} Gbit/s", gigabits));
  std::vector<Cells> rows;
  LayerCost all{.name = "All"};
  for (std::size_t i = 0; i < input.layers.size(); ++i) {
    rows.push_back(layer_cells(input.layers[i], shares.layers[i]));
    all.parameters += input.layers[i].parameters;
    all.flops += input.layers[i].flops;
  }
  rows.push_back(layer_cells(all, shares.whole));
  return fmt::format("\n<section>\n<h2>Layers</h2>\n<p class=\"note\">{}</p>\n{}</section>\n",
                     html_escaped(formula(input, workers, seconds)), html_table("figures total", head, rows));
}

}  // namespace paceline
