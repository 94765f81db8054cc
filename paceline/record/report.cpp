#include "paceline/record/report.hpp"

#include <map>
#include <string_view>

#include "paceline/core/check.hpp"
#include "paceline/record/html.hpp"
#include "paceline/record/report_data.hpp"
#include "paceline/record/report_page.hpp"
#include "paceline/record/report_tables.hpp"
#include "paceline/record/report_words.hpp"
#include "paceline/record/straggler.hpp"

namespace paceline {
namespace {

using Parts = std::map<std::string_view, std::string>;

// In one pass: a part that itself contains braces is not looked at again.
std::string filled(std::string_view page, const Parts& parts) {
  std::string result;
  while (true) {
    const std::size_t open = page.find("{{");
    result += page.substr(0, open);
    if (open == std::string_view::npos) return result;
    const std::size_t close = page.find("}}", open);
    CHECK(close != std::string_view::npos, "report_page.html has {{ without }}");
    const auto part = parts.find(page.substr(open + 2, close - open - 2));
    CHECK(part != parts.end(), "report_page.html names a part that does not exist");
    result += part->second;
    page.remove_prefix(close + 2);
  }
}

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
  return filled(kReportPage, {{"style", std::string(kReportStyle)},
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
                              {"epoch_table", epoch_table(input.epochs)},
                              {"config_table", config_table(input.config)},
                              {"result_table", result_table(input.final)},
                              {"data", script_json(chart_data(input))}});
}

}  // namespace paceline
