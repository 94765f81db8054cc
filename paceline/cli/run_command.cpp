#include "paceline/cli/run_command.hpp"

#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <string>

#include "paceline/core/error.hpp"
#include "paceline/launch/launcher.hpp"

namespace paceline {
namespace {

struct Arguments {
  RunOptions options;
  int threads = 0;  // 0: not given
  std::string bind = "none";
  double grace_seconds = 5;
};

Bind parse_bind(const std::string& word) {
  return word == "core" ? Bind::core : word == "numa" ? Bind::numa : Bind::none;
}

void add_options(CLI::App& command, Arguments& arguments) {
  constexpr int kMost = 65536;
  command.add_option("-n,--workers", arguments.options.workers, "How many workers to start (default: 1)")
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
  return run(options);
}

}  // namespace

EnvironmentList own_environment() {
  EnvironmentList list;
  for (char** entry = environ; *entry != nullptr; ++entry) list.emplace_back(*entry);
  return list;
}

void add_run_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "Start the workers of a job on this machine");
  command->footer("PROGRAM and its arguments follow the options: paceline run -n 4 ./train --epochs 3");
  // What follows PROGRAM is PROGRAM's, whatever it looks like.
  command->prefix_command();
  auto arguments = std::make_shared<Arguments>();  // shared: the callback must be copyable
  add_options(*command, *arguments);
  command->callback([command, arguments, &exit_code] { exit_code = run_with(*command, *arguments); });
}

}  // namespace paceline
