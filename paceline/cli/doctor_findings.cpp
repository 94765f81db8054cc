#include "paceline/cli/doctor_findings.hpp"

#include <algorithm>

namespace paceline {
namespace {

std::vector<Finding> said_once(const std::vector<Finding>& findings) {
  std::vector<Finding> merged;
  for (const Finding& finding : findings) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Finding& other) {
      return other.severity == finding.severity && other.what == finding.what && other.todo == finding.todo;
    });
    if (same != merged.end()) {
      same->hosts.insert(same->hosts.end(), finding.hosts.begin(), finding.hosts.end());
    } else {
      merged.push_back(finding);
    }
  }
  return merged;
}

}  // namespace

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::wrong: return "wrong";
    case Severity::doubtful: return "doubtful";
    case Severity::note: return "note";
  }
  return "?";
}

std::vector<Finding> diagnose(const DoctorReport& report) {
  std::vector<Finding> findings;
  diagnose_links(report, findings);
  diagnose_devices(report, findings);
  diagnose_hosts(report, findings);
  diagnose_differences(report, findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return said_once(findings);
}

}  // namespace paceline
