#include "paceline/record/report_staleness.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/record/figures.hpp"
#include "paceline/record/html.hpp"

namespace paceline {
namespace {

// As the buckets of Staleness: one clock each up to 15, from there on twice as wide as the one before.
std::string bucket_label(std::size_t bucket) {
  if (bucket < 16) return fmt::format("{}", bucket);
  const std::int64_t first = std::int64_t{16} << (bucket - 16);
  return fmt::format("{} to {}", with_thousands(first), with_thousands(2 * first - 1));
}

std::vector<Cells> histogram_rows(const StalenessFigures& figures) {
  std::int64_t reads = 0;
  for (const std::int64_t count : figures.histogram) reads += count;
  std::vector<Cells> rows;
  for (std::size_t bucket = 0; bucket < figures.histogram.size(); ++bucket) {
    const std::int64_t count = figures.histogram[bucket];
    if (count == 0) continue;
    rows.push_back({bucket_label(bucket), with_thousands(count),
                    percent(static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, reads)))});
  }
  return rows;
}

std::string verdict(const StalenessFigures& figures) {
  if (figures.violations == 0) return "No read was older than the plan allows.";
  return fmt::format("{} reads were older than the plan allows: that is an error of paceline.",
                     with_thousands(figures.violations));
}

std::string missed_text(const StalenessFigures& figures) {
  if (figures.max_missed == 0 && figures.mean_missed == 0) return {};
  return fmt::format(
      " They, or the gradients that servers applied, had missed {:.2f} updates on average (variance {:.2f}, at most "
      "{}).",
      figures.mean_missed, figures.variance_missed, with_thousands(figures.max_missed));
}

}  // namespace

std::string staleness_section(const ReportInput& input) {
  if (input.epochs.empty() || !input.epochs.back().staleness) return {};
  const StalenessFigures& figures = *input.epochs.back().staleness;
  return fmt::format(
      "<section id=\"staleness\">\n<h2>Staleness of reads</h2>\n<p class=\"verdict {}\">{}</p>\n"
      "<p class=\"note\">Reads of parameters lacked updates of {:.2f} clocks on average (variance {:.2f}, at most "
      "{}).{}</p>\n"
      "{}</section>\n",
      figures.violations == 0 ? "calm" : "alarm", verdict(figures), figures.mean, figures.variance,
      with_thousands(figures.max), missed_text(figures),
      html_table("numbers", {"Clocks", "Reads", "Share"}, histogram_rows(figures)));
}

}  // namespace paceline
