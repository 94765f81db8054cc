#include "paceline/cli/doctor_worker.hpp"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/doctor_survey.hpp"
#include "paceline/cli/train_worker.hpp"
#include "paceline/core/error.hpp"
#include "paceline/launch/join.hpp"

namespace paceline {
namespace {

// One rank says what happened to another one: the lowest that is left. Each says what happened to itself.
int fail(std::optional<Job>& job, const Error& error) {
  const bool own = !job || error.rank() == kNoRank || error.rank() == job->rank();
  const bool speaks = own || job->rank() == (error.rank() == 0 ? 1 : 0);
  if (speaks) fmt::print(stderr, "paceline: {}\n", error.what());
  if (!own) return kFollowerExit;
  return error.code() == Code::invalid ? 2 : 1;
}

int work_safely(const std::vector<std::string>& names) {
  std::optional<Job> job;
  try {
    std::string program = "paceline";
    char* argv[] = {program.data(), nullptr};
    job.emplace(join(1, argv));
    if (const auto report = survey(*job, names)) fmt::print("{}\n", text_of(Json(*report), 1));
    return 0;
  } catch (const Error& error) {
    return fail(job, error);
  }
}

}  // namespace

void add_doctor_worker_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("doctor-worker", "One worker of paceline doctor");
  command->group("");                                         // hidden
  auto names = std::make_shared<std::vector<std::string>>();  // shared: the callback must be copyable
  command->add_option("names", *names, "Of the hosts, by rank");
  command->callback([names, &exit_code] { exit_code = work_safely(*names); });
}

}  // namespace paceline
