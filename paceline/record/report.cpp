#include "paceline/record/report.hpp"

#include "paceline/record/html.hpp"
#include "paceline/record/page_parts.hpp"
#include "paceline/record/report_data.hpp"
#include "paceline/record/report_layers.hpp"
#include "paceline/record/report_page.hpp"
#include "paceline/record/report_staleness.hpp"
#include "paceline/record/report_tables.hpp"
#include "paceline/record/report_words.hpp"
#include "paceline/record/straggler.hpp"

namespace paceline {
namespace {

// A sentence in the middle of other text begins small, a paragraph does not.
std::string as_paragraph(std::string sentence) {
  if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z') sentence[0] = static_cast<char>(sentence[0] - 32);
  if (!sentence.empty() && sentence.back() != '.') sentence += '.';
  return sentence;
}

}  // namespace

std::string render_report(const ReportInput& input) {
  const std::vector<WorkerTime> workers = worker_totals(input.epochs);
  const StragglerVerdict verdict = find_straggler(workers);
  return filled_page(kReportPage,
                     {{"style", std::string(kReportStyle)},
                      {"script", std::string(kReportScript)},
                      {"title", html_escaped(report_title(input))},
                      {"subtitle", html_escaped(report_subtitle(input))},
                      {"status", report_status(input)},
                      {"tiles", report_tiles(input)},
                      {"warnings", report_warnings(input)},
                      {"verdict", html_escaped(as_paragraph(verdict.sentence))},
                      {"verdict_kind", verdict.straggler == kNoRank ? "calm" : "alarm"},
                      {"worker_bars", worker_bars(workers, verdict.straggler)},
                      {"worker_table", worker_table(workers)},
                      {"goal", report_score(input) == Score::rmse ? "Root mean squared error" : "Accuracy"},
                      {"epoch_table", epoch_table(input.epochs)},
                      {"staleness", staleness_section(input)},
                      {"layers", layer_section(input)},
                      {"config_table", config_table(input.config)},
                      {"result_table", result_table(input.final)},
                      {"data", script_json(chart_data(input))}});
}

}  // namespace paceline
