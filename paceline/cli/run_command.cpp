#include "paceline/cli/run_command.hpp"

#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <optional>
#include <string>

#include "paceline/cli/host_options.hpp"
#include "paceline/core/error.hpp"
#include "paceline/launch/launcher.hpp"

namespace paceline {
namespace {

struct Arguments {
  RunOptions options;
  int workers = 0;  // 0: not given, as for the others
  int threads = 0;
  std::string bind = "none";
  double grace_seconds = 5;
  HostArguments hosts;
};

Bind parse_bind(const std::string& word) {
  return word == "core" ? Bind::core : word == "numa" ? Bind::numa : Bind::none;
}

void add_options(CLI::App& command, Arguments& arguments) {
  constexpr int kMost = 65536;
  command.add_option("-n,--workers", arguments.workers, "How many workers to start (default: 1, or as --hosts says)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  command.add_option("--threads", arguments.threads, "Threads per worker (default: cores / workers)")
      ->check(CLI::Range(1, kMost))
      ->type_name("N");
  command
      .add_option("--bind", arguments.bind, "Bind each worker to cores of its own, or to a NUMA node (default: none)")
      ->check(CLI::IsMember({"none", "core", "numa"}))
      ->type_name("none|core|numa");
  command
      .add_option("--grace", arguments.grace_seconds,
                  "Time that the other workers have to end once one has failed (default: 5)")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("SECONDS");
  command.add_flag("!--no-prefix", arguments.options.prefix, "Do not begin lines with the rank");
}

int run_with(const CLI::App& command, Arguments& arguments) {
  RunOptions& options = arguments.options;
  options.command = command.remaining();
  if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
  if (options.command.empty()) throw Error(Code::invalid, "which program? paceline run -n 4 PROGRAM ARGUMENTS");
  options.environment = own_environment();
  options.bind = parse_bind(arguments.bind);
  if (arguments.threads > 0) options.threads = arguments.threads;
  options.grace = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.grace_seconds));
  take_host_options(arguments.hosts, arguments.workers > 0 ? std::optional(arguments.workers) : std::nullopt, options);
  return run(options);
}

}  // namespace

EnvironmentList own_environment() {
  EnvironmentList list;
  for (char** entry = environ; *entry != nullptr; ++entry) list.emplace_back(*entry);
  return list;
}

void add_run_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "Start the workers of a job, here or on several hosts");
  command->footer(
      "PROGRAM and its arguments follow the options: paceline run -n 4 ./train --epochs 3\n"
      "On two hosts, where program and folder have the same path: paceline run --hosts a:4,b:4 ./train --epochs 3");
  // What follows PROGRAM is PROGRAM's, whatever it looks like.
  command->prefix_command();
  auto arguments = std::make_shared<Arguments>();  // shared: the callback must be copyable
  add_options(*command, *arguments);
  add_host_options(*command, arguments->hosts);
  command->callback([command, arguments, &exit_code] { exit_code = run_with(*command, *arguments); });
}

}  // namespace paceline
