// The report of `paceline doctor` for a person: plain text, at most about 100 columns.
#pragma once

#include <string>
#include <vector>

#include "paceline/cli/doctor_choices.hpp"
#include "paceline/cli/doctor_findings.hpp"
#include "paceline/cli/doctor_report.hpp"

namespace paceline {

std::string render(const DoctorReport& report, const std::vector<Choice>& choices,
                   const std::vector<Finding>& findings);

// Parts of it.
std::string hosts_table(const DoctorReport& report);
std::string devices_table(const DoctorReport& report);
std::string links_tables(const DoctorReport& report);
std::string choices_table(const DoctorReport& report, const std::vector<Choice>& choices);
std::string findings_text(const std::vector<Finding>& findings);

}  // namespace paceline
