#include "paceline/cli/host_options.hpp"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "paceline/core/error.hpp"
#include "paceline/launch/environment.hpp"
#include "paceline/launch/host_list.hpp"

namespace paceline {
namespace {

// What ssh is told if it was not: to ask nobody, to give up on a host that is gone, to leave no process behind.
constexpr const char* kSshOptions[] = {"-T", "-oBatchMode=yes", "-oConnectTimeout=20", "-oServerAliveInterval=15",
                                       "-oControlMaster=no"};

void add_places(CLI::App& command, HostArguments& arguments) {
  auto* hosts = command.add_option("--hosts", arguments.hosts, "Hosts and their workers: a:4,b:4; localhost is here")
                    ->type_name("LIST");
  command.add_option("--hostfile", arguments.host_file, "The same from a file: lines a, a:4 or a slots=4")
      ->excludes(hosts)
      ->type_name("FILE");
  command.add_option("--address", arguments.address, "This machine's address as the hosts reach it (default: found)")
      ->type_name("IP");
  command.add_option("--ssh", arguments.ssh, "Called as PROGRAM HOST COMMAND… to start a command there (default: ssh)")
      ->type_name("PROGRAM");
  command
      .add_option("--remote-paceline", arguments.remote_paceline, "Where paceline is on the hosts (default: as here)")
      ->type_name("PATH");
  command.add_option("--env", arguments.variables, "Set a variable for the workers, or pass it on to other hosts")
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]");
}

void add_network(CLI::App& command, HostArguments& arguments) {
  command.add_option("--ports", arguments.ports, "Listen only at ports of this range (default: any)")->type_name("A-B");
  command.add_option("--device", arguments.device, "Network device, or its address, between hosts (default: found)")
      ->type_name("NAME");
  command.add_option("--silence", arguments.silence_seconds, "After how long without a sign a host counts as lost")
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
  command
      .add_option("--link", arguments.link, "Imitate a slower network between hosts; on one machine, workers are hosts")
      ->type_name("100Mbit/s,5ms");
  command
      .add_option("--split-host", arguments.split_host, "Let every N workers of a machine count as a host of their own")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
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

void take_hosts(const HostArguments& arguments, std::optional<int> workers, RunOptions& options) {
  options.workers = workers.value_or(1);
  if (!arguments.several()) {
    const bool idle = arguments.address.empty() && arguments.remote_paceline.empty() && arguments.ssh.empty();
    if (idle) return;
    throw Error(Code::invalid,
                "--address, --ssh and --remote-paceline are about other hosts: give --hosts or --hostfile");
  }
  const auto entries = arguments.hosts.empty() ? parse_host_file(read_text(arguments.host_file), arguments.host_file)
                                               : parse_host_list(arguments.hosts);
  options.remote.hosts = place_workers(entries, workers);
  options.remote.ssh = ssh_words(arguments.ssh);
  options.remote.address = arguments.address;
  options.remote.remote_paceline = arguments.remote_paceline;
  options.workers = workers_of(options.remote.hosts);
}

// `NAME=value` sets a variable, `NAME` passes one on.
void take_variables(const HostArguments& arguments, RunOptions& options) {
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
  if (!flag.empty()) return parse_ports("--ports", flag);
  const std::string value = variable(environment, "PACELINE_PORTS");
  return value.empty() ? PortRange{} : parse_ports("PACELINE_PORTS", value);
}

void take_network(const HostArguments& arguments, RunOptions& options) {
  EnvironmentList& environment = options.environment;
  if (!arguments.ports.empty()) set_variable(environment, "PACELINE_PORTS", arguments.ports);
  if (!arguments.device.empty()) set_variable(environment, "PACELINE_DEVICE", arguments.device);
  if (arguments.silence_seconds > 0)
    set_variable(environment, "PACELINE_SILENCE", fmt::format("{}", arguments.silence_seconds));
  if (!arguments.link.empty()) set_variable(environment, "PACELINE_LINK", parse_link(arguments.link).text);
  if (arguments.split_host > 0) set_variable(environment, "PACELINE_SPLIT_HOST", std::to_string(arguments.split_host));
  options.ports = ports_of(environment, arguments.ports);
}

// An option that changes nothing is a mistake. How many workers another launcher starts is not known here.
void check_split(const HostArguments& arguments, std::optional<int> workers, const RunOptions& options) {
  if (arguments.split_host == 0 || (!workers && !arguments.several())) return;
  int most = arguments.several() ? 0 : options.workers;
  for (const Host& host : options.remote.hosts) most = std::max(most, host.workers);
  if (arguments.split_host < most) return;
  throw Error(Code::invalid, fmt::format("--split-host {} splits nothing: no host has more than {} worker{}",
                                         arguments.split_host, most, most == 1 ? "" : "s"));
}

}  // namespace

void add_host_options(CLI::App& command, HostArguments& arguments) {
  add_places(command, arguments);
  add_network(command, arguments);
}

void take_host_options(const HostArguments& arguments, std::optional<int> workers, RunOptions& options) {
  take_variables(arguments, options);
  take_network(arguments, options);
  take_hosts(arguments, workers, options);
  check_split(arguments, workers, options);
}

}  // namespace paceline
