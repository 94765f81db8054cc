#include "paceline/cli/doctor_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "paceline/cli/doctor_choices.hpp"
#include "paceline/cli/doctor_findings.hpp"
#include "paceline/cli/doctor_report.hpp"
#include "paceline/cli/doctor_tables.hpp"
#include "paceline/cli/host_options.hpp"
#include "paceline/cli/run_command.hpp"
#include "paceline/cli/train_worker.hpp"
#include "paceline/core/error.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/cores.hpp"
#include "paceline/launch/launcher.hpp"

namespace paceline {
namespace {

struct DoctorArguments {
  int workers = 0;  // 0: not given, as for the others
  int threads = 0;
  bool json = false;
  HostArguments hosts;
};

void add_options(CLI::App& command, DoctorArguments& arguments) {
  constexpr int kMost = 65536;
  command
      .add_option("-n,--workers", arguments.workers,
                  "How many workers to try (default: one per core, or as --hosts says)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  command
      .add_option("--threads", arguments.threads, "Threads per worker of the job in mind (default: cores / workers)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  command.add_flag("--json", arguments.json, "The whole report as one JSON object");
  add_host_options(command, arguments.hosts);
}

void require_no_other_launcher(const EnvironmentList& environment) {
  for (const char* name : {"PACELINE_RANK", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (variable(environment, name).empty()) continue;
    throw Error(Code::invalid,
                fmt::format("paceline doctor starts its own workers, but is itself a worker of a job ({} "
                            "is set): start it by hand, with --hosts",
                            name));
  }
}

// While it lives, standard output goes into a file without a name.
class CapturedOutput {
 public:
  CapturedOutput()
      : file_(memfd_create("paceline doctor", MFD_CLOEXEC)), kept_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) {
    std::fflush(stdout);
    if (!file_.valid() || !kept_.valid() || dup2(file_.number(), STDOUT_FILENO) < 0)
      throw system_error("cannot redirect the workers' output", errno);
  }
  ~CapturedOutput() { restore(); }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  std::string text() {
    restore();
    std::string all(static_cast<std::size_t>(std::max<off_t>(0, lseek(file_.number(), 0, SEEK_END))), '\0');
    const ssize_t read = pread(file_.number(), all.data(), all.size(), 0);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read)));
    return all;
  }

 private:
  void restore() { dup2(kept_.number(), STDOUT_FILENO); }

  Descriptor file_;
  Descriptor kept_;
};

RunOptions run_options(const DoctorArguments& arguments) {
  RunOptions options;
  options.environment = own_environment();
  require_no_other_launcher(options.environment);
  const int here = default_threads(allowed_cores().size(), core_quota(), 1);
  const std::optional<int> asked = arguments.workers > 0 ? std::optional(arguments.workers) : std::nullopt;
  take_host_options(arguments.hosts, arguments.hosts.several() ? asked : asked.value_or(here), options);
  if (arguments.threads > 0) options.threads = arguments.threads;
  options.prefix = false;
  options.follower_code = kFollowerExit;
  options.grace = std::chrono::milliseconds(1500);  // a worker that is still there then waits for nobody
  const auto& hosts = options.remote.hosts;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  options.command = {hosts.empty() || options.remote.remote_paceline.empty() ? own : options.remote.remote_paceline,
                     "doctor-worker"};
  for (const Host& host : hosts)
    options.command.insert(options.command.end(), static_cast<std::size_t>(host.workers), host.name);
  return options;
}

DoctorReport read_report(const std::string& text) {
  try {
    return Json::parse(text).get<DoctorReport>();
  } catch (const nlohmann::json::exception&) {
    throw Error(Code::system, "the workers have ended without a report");
  }
}

void print_json(const DoctorReport& report, const std::vector<Choice>& choices, const std::vector<Finding>& findings) {
  Json json = report;
  json["choices"] = Json::array();
  for (const Choice& choice : choices)
    json["choices"].push_back({{"op", "allreduce"},
                               {"bytes", choice.bytes},
                               {"algorithm", name(choice.taken)},
                               {"seconds", choice.seconds},
                               {"quickest", name(choice.quickest)},
                               {"quickest_seconds", choice.quickest_seconds}});
  json["findings"] = Json::array();
  for (const Finding& finding : findings)
    json["findings"].push_back({{"severity", name(finding.severity)},
                                {"id", finding.id},
                                {"hosts", finding.hosts},
                                {"what", finding.what},
                                {"todo", finding.todo}});
  fmt::print("{}\n", text_of(json, 2));
}

int examine(const DoctorArguments& arguments) {
  const RunOptions options = run_options(arguments);
  if (isatty(STDERR_FILENO) != 0 && !arguments.json) fmt::print(stderr, "measuring, which takes some seconds …\n");
  CapturedOutput output;
  const int code = run(options);
  const std::string text = output.text();
  if (code != 0) return code == kFollowerExit ? 1 : code;
  const DoctorReport report = read_report(text);
  const auto chosen = choices(report);
  const auto findings = diagnose(report);
  arguments.json ? print_json(report, chosen, findings) : fmt::print("{}", render(report, chosen, findings));
  const bool wrong = std::any_of(findings.begin(), findings.end(),
                                 [](const Finding& finding) { return finding.severity == Severity::wrong; });
  return wrong ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("doctor", "Look at hosts and links of a job and say what is wrong");
  command->footer(
      "Starts a job of workers that measure: memory, links between each two of them, clocks. A few seconds.\n"
      "paceline doctor                     this machine\n"
      "paceline doctor --hosts a:4,b:4     these hosts, as a job on them would use them\n"
      "Exit code: 0, or 1 if something is wrong (not if it is only doubtful) or the job failed, 2 for bad input.");
  auto arguments = std::make_shared<DoctorArguments>();  // shared: the callback must be copyable
  add_options(*command, *arguments);
  command->callback([arguments, &exit_code] { exit_code = examine(*arguments); });
}

}  // namespace paceline
