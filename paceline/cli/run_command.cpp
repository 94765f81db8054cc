#include "paceline/cli/run_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "paceline/core/error.hpp"
#include "paceline/launch/environment.hpp"
#include "paceline/launch/host_list.hpp"
#include "paceline/launch/launcher.hpp"

namespace paceline {
namespace {

struct Arguments {
  RunOptions options;
  int workers = 0;  // 0: not given, as for the others
  int threads = 0;
  std::string bind = "none";
  double grace_seconds = 5;
  std::vector<std::string> variables;  // NAME or NAME=value
  std::string hosts;
  std::string host_file;
  std::string ssh;
  std::string ports;
  std::string device;
  double silence_seconds = 0;
};

// What ssh is told if it was not: to ask nobody, to give up on a host that is gone, to leave no process behind.
constexpr const char* kSshOptions[] = {"-T", "-oBatchMode=yes", "-oConnectTimeout=20", "-oServerAliveInterval=15",
                                       "-oControlMaster=no"};

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
  command.add_option("--env", arguments.variables, "Set a variable for the workers, or pass it on to other hosts")
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]");
}

void add_host_options(CLI::App& command, Arguments& arguments) {
  HostOptions& remote = arguments.options.remote;
  auto* hosts = command.add_option("--hosts", arguments.hosts, "Hosts and their workers: a:4,b:4; localhost is here")
                    ->type_name("LIST");
  command.add_option("--hostfile", arguments.host_file, "The same from a file: lines a, a:4 or a slots=4")
      ->excludes(hosts)
      ->type_name("FILE");
  command.add_option("--address", remote.address, "This machine's address as the hosts reach it (default: found)")
      ->type_name("IP");
  command.add_option("--ssh", arguments.ssh, "Called as PROGRAM HOST COMMAND… to start a command there (default: ssh)")
      ->type_name("PROGRAM");
  command.add_option("--remote-paceline", remote.remote_paceline, "Where paceline is on the hosts (default: as here)")
      ->type_name("PATH");
}

void add_network_options(CLI::App& command, Arguments& arguments) {
  command.add_option("--ports", arguments.ports, "Listen only at ports of this range (default: any)")->type_name("A-B");
  command.add_option("--device", arguments.device, "Network device, or its address, between hosts (default: found)")
      ->type_name("NAME");
  command.add_option("--silence", arguments.silence_seconds, "After how long without a sign a host counts as lost")
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
}

std::string read_text(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream) throw Error(Code::invalid, fmt::format("cannot read the hostfile {}: {}", file, strerror(errno)));
  return text;
}

std::vector<std::string> ssh_words(const std::string& text) {
  std::istringstream stream(text.empty() ? "ssh" : text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) throw Error(Code::invalid, "--ssh names no program");
  // The first value counts for ssh, so that what the user wrote goes before.
  if (std::filesystem::path(words.front()).filename() == "ssh")
    words.insert(words.end(), std::begin(kSshOptions), std::end(kSshOptions));
  return words;
}

void take_hosts(const Arguments& arguments, RunOptions& options) {
  const auto workers = arguments.workers > 0 ? std::optional<int>(arguments.workers) : std::nullopt;
  const bool several = !arguments.hosts.empty() || !arguments.host_file.empty();
  options.workers = workers.value_or(1);
  if (!several) {
    const bool idle = options.remote.address.empty() && options.remote.remote_paceline.empty() && arguments.ssh.empty();
    if (idle) return;
    throw Error(Code::invalid,
                "--address, --ssh and --remote-paceline are about other hosts: give --hosts or --hostfile");
  }
  const auto entries = arguments.hosts.empty() ? parse_host_file(read_text(arguments.host_file), arguments.host_file)
                                               : parse_host_list(arguments.hosts);
  options.remote.hosts = place_workers(entries, workers);
  options.remote.ssh = ssh_words(arguments.ssh);
  options.workers = workers_of(options.remote.hosts);
}

// `NAME=value` sets a variable, `NAME` passes one on.
void take_variables(const Arguments& arguments, RunOptions& options) {
  for (const std::string& text : arguments.variables) {
    const std::size_t end = text.find('=');
    const std::string name = text.substr(0, end);
    if (name.empty()) throw Error(Code::invalid, fmt::format("--env {}: the variable has no name", text));
    if (end != std::string::npos) set_variable(options.environment, name, text.substr(end + 1));
    const bool known = std::any_of(options.environment.begin(), options.environment.end(),
                                   [&](const std::string& entry) { return entry.starts_with(name + "="); });
    if (!known) throw Error(Code::invalid, fmt::format("--env {}: that variable is not set here", name));
    options.remote.pass_also.push_back(name);
  }
}

// The flag, or the variable that it stands for.
PortRange ports_of(const EnvironmentList& environment, const std::string& flag) {
  const auto look_up = [&](const std::string& name) -> std::optional<std::string> {
    const std::string value = name == "PACELINE_PORTS" ? variable(environment, name) : "";
    return value.empty() ? std::nullopt : std::optional<std::string>(value);
  };
  try {
    return read_common(look_up).network.ports;
  } catch (const Error&) {
    if (flag.empty()) throw;
    throw Error(Code::invalid, fmt::format("--ports is '{}' but must be a range of ports between 1024 and 65535, for "
                                           "example 7000-7100",
                                           flag));
  }
}

void take_network(const Arguments& arguments, RunOptions& options) {
  EnvironmentList& environment = options.environment;
  if (!arguments.ports.empty()) set_variable(environment, "PACELINE_PORTS", arguments.ports);
  if (!arguments.device.empty()) set_variable(environment, "PACELINE_DEVICE", arguments.device);
  if (arguments.silence_seconds > 0)
    set_variable(environment, "PACELINE_SILENCE", fmt::format("{}", arguments.silence_seconds));
  options.ports = ports_of(environment, arguments.ports);
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
  take_variables(arguments, options);
  take_network(arguments, options);
  take_hosts(arguments, options);
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
  add_host_options(*command, *arguments);
  add_network_options(*command, *arguments);
  command->callback([command, arguments, &exit_code] { exit_code = run_with(*command, *arguments); });
}

}  // namespace paceline
