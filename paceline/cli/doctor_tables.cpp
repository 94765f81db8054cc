#include "paceline/cli/doctor_tables.hpp"

#include <fmt/format.h>

#include <set>

#include "paceline/cli/doctor_grid.hpp"
#include "paceline/cli/doctor_words.hpp"
#include "paceline/cli/measure.hpp"

namespace paceline {
namespace {

using enum Grid::Align;
constexpr std::size_t kHostsByName = 4;

std::string title(const DoctorReport& report) {
  const std::size_t hosts = report.hosts.size();
  return fmt::format("paceline {}: {} on {}\n", report.version, count_of(report.workers(), "worker"),
                     hosts == 1 ? report.hosts.front().name : count_of(static_cast<int>(hosts), "host"));
}

std::string whose(const Finding& finding) {
  std::vector<std::string> hosts = finding.hosts;
  if (hosts.empty()) return {};
  if (hosts.size() > kHostsByName + 1) {
    hosts.resize(kHostsByName);
    hosts.push_back(fmt::format("{} others", finding.hosts.size() - kHostsByName));
  }
  return and_list(hosts) + ": ";
}

}  // namespace

std::string choices_table(const DoctorReport& report, const std::vector<Choice>& choices) {
  std::set<int> counts;
  std::string text;
  const auto workers = [](int count) {
    return fmt::format("{}, one per core, 1 thread each", count_of(count, "worker"));
  };
  for (const HostReport& host : report.hosts) {
    counts.insert(default_workers(host));
    text += fmt::format("  on {}: {}\n", host.name, workers(default_workers(host)));
  }
  if (counts.size() == 1)
    text = fmt::format("  {}{}\n", report.hosts.size() > 1 ? "on each host: " : "", workers(*counts.begin()));
  Grid grid({right, left, right, left});
  grid.add({"allreduce of", "algorithm", "takes about", "quickest by these links"});
  for (const Choice& choice : choices) {
    const bool same = choice.taken == choice.quickest;
    grid.add({format_bytes(choice.bytes), std::string(name(choice.taken)), time_text(choice.seconds),
              same ? "the same" : fmt::format("{}, {}", name(choice.quickest), time_text(choice.quickest_seconds))});
  }
  return text + (choices.empty() ? "" : grid.text());
}

std::string findings_text(const std::vector<Finding>& findings) {
  if (findings.empty()) return "  nothing is wrong\n";
  constexpr std::size_t kIndent = 12;
  std::string text = findings.front().severity == Severity::wrong ? "" : "  nothing is wrong, but:\n";
  for (const Finding& finding : findings) {
    text += fmt::format("  {:<9} {}", name(finding.severity), wrap(whose(finding) + finding.what, kIndent));
    text += std::string(kIndent, ' ') + wrap(finding.todo, kIndent);
  }
  return text;
}

std::string render(const DoctorReport& report, const std::vector<Choice>& choices,
                   const std::vector<Finding>& findings) {
  const std::string links = links_tables(report);
  return title(report) + "\nHosts\n" + hosts_table(report) + "\nNetwork devices\n" + devices_table(report) +
         (links.empty() ? "" : "\n" + links) + "\nWhat paceline would choose\n" + choices_table(report, choices) +
         "\nFindings\n" + findings_text(findings);
}

}  // namespace paceline
