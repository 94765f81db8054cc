// diagnose: what is wrong with the hosts and links of a report, and what to do about it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/doctor_report.hpp"

namespace paceline {

enum class Severity {
  wrong,     // costs a large part of the job's speed, or will end it
  doubtful,  // may cost some, or does so only in some jobs
  note,      // to be known
};
std::string_view name(Severity severity);

struct Finding {
  Severity severity = Severity::note;
  std::string id;                  // "slow-link": the same for all findings of a kind
  std::vector<std::string> hosts;  // whose trouble it is; empty: nobody's in particular
  std::string what;                // one sentence
  std::string todo;                // another one
};

// The most severe first. What can be said of several hosts in the same words is said once.
std::vector<Finding> diagnose(const DoctorReport& report);

// Parts of it, in files of their own.
void diagnose_hosts(const DoctorReport& report, std::vector<Finding>& findings);
void diagnose_differences(const DoctorReport& report, std::vector<Finding>& findings);
void diagnose_devices(const DoctorReport& report, std::vector<Finding>& findings);
void diagnose_links(const DoctorReport& report, std::vector<Finding>& findings);

}  // namespace paceline
