// What a launcher and its agents on other hosts say to each other: lines over the agent's standard streams.
//
//   agent      paceline host-agent 0.1.0     its greeting; lines before it are not ours (a login script's)
//   launcher   {"command": …}                the HostJob, once, if the versions are the same
//   launcher   signal 15                     any number of times; its end of file kills the workers
//   agent      o[3] loss 0.25                a line of a worker's output
//   agent      e[3] warning                  a line of a worker's errors, or of the agent's own
//   agent      r{"failure": …}               a report: the host's first failure
//   agent      r{"ended": true}              a report: all its workers have ended. The last line
//
// Pure. Texts in JSON carry bytes: each character, from 0 to 255, is one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/launch/cores.hpp"
#include "paceline/launch/crew.hpp"
#include "paceline/launch/server_share.hpp"
#include "paceline/launch/worker_environment.hpp"

namespace paceline {

inline constexpr char kReportTag = 'r';

// With its end of line, as all functions here that make lines; those that read them expect none.
std::string greeting_line();
// The version that greets; nullopt if this is not a greeting.
std::optional<std::string> greeting_version(std::string_view line);
const char* own_version();

// All that an agent needs to know.
struct HostJob {
  std::vector<std::string> command;
  EnvironmentList environment;  // to be set in the workers' environment
  std::string host;             // as the user calls it
  std::string folder;           // to work in
  Rank first_rank = 0;
  int workers = 1;
  int size = 1;
  ServerShare servers = {};
  std::string store;  // host:port, as this host reaches it
  std::string secret;
  std::optional<int> threads;
  Bind bind = Bind::none;
  Duration grace = {};
  bool prefix = true;
  std::optional<int> follower_code;
};
std::string job_line(const HostJob& job);
// Throws Error{invalid}: the line is not a job.
HostJob parse_job(std::string_view line);

std::string signal_line(int number);
// nullopt if this is no signal that a launcher passes on.
std::optional<int> parse_signal(std::string_view line);

struct Report {
  std::optional<Failure> failure;
  bool ended = false;
};
// With its tag.
std::string report_line(const Report& report);
// `line` is without its tag. Throws Error{invalid}.
Report parse_report(std::string_view line);

}  // namespace paceline
