#include "paceline/cli/train_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "paceline/cli/run_command.hpp"
#include "paceline/cli/train_options.hpp"
#include "paceline/cli/train_server.hpp"
#include "paceline/cli/train_worker.hpp"
#include "paceline/cli/worker_program.hpp"
#include "paceline/data/open.hpp"
#include "paceline/exchange/sites.hpp"
#include "paceline/launch/cores.hpp"
#include "paceline/launch/devices.hpp"
#include "paceline/launch/host_list.hpp"
#include "paceline/launch/launcher.hpp"
#include "paceline/launch/pmix/started_by.hpp"
#include "paceline/launch/worker_environment.hpp"
#include "paceline/torch/run_folder.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// Beside paceline, as here; found on the PATH if paceline is.
std::string remote_worker_program(const HostArguments& hosts) {
  if (hosts.remote_paceline.empty()) return torch_worker_program();
  return fs::path(hosts.remote_paceline).replace_filename(kTorchWorker).string();
}

std::string remote_program(const HostArguments& hosts) {
  return hosts.remote_paceline.empty() ? own_program() : hosts.remote_paceline;
}

// What all runs have in common, wherever their workers are.
RunOptions run_options(const TrainConfig& config) {
  RunOptions options = torch_worker_options();
  if (config.threads > 0) options.threads = config.threads;
  return options;
}

// Servers in processes of their own, if that was asked for.
ServerOptions server_options(const TrainConfig& config, const std::string& program) {
  if (config.servers_on.empty()) return {};
  return {.command = {program, kTrainServer, config.plan.text()}, .count = config.plan.servers()};
}

// Servers on another host make a job of several hosts also of one whose workers are all here.
void reach_servers(TrainArguments& a) {
  if (a.hosts.several() || !a.servers_on) return;
  const auto here = [](const std::string& name) { return Host{.name = name}.is_here() || name == host_name(); };
  const auto names = parse_server_hosts(*a.servers_on);
  if (std::all_of(names.begin(), names.end(), here)) return;
  const int workers = a.workers > 0 ? a.workers : default_threads(allowed_cores().size(), core_quota(), 1);
  a.hosts.hosts = fmt::format("localhost:{}", workers);
}

// All workers are on this host unless a network between several is imitated: that can be known before they start.
void refuse_one_site(const TrainConfig& config, const RunOptions& options) {
  const bool imitates = !variable(options.environment, "PACELINE_LINK").empty() ||
                        !variable(options.environment, "PACELINE_SPLIT_HOST").empty();
  if (config.between_sites.empty() || imitates) return;
  const auto workers = static_cast<std::size_t>(config.workers);
  parse_sites(config.sites, std::vector<int>(workers), std::vector<std::string>(workers, host_name()));
}

int train_here(TrainArguments& a) {
  TrainConfig& config = a.config;
  const std::string program = torch_worker_program();
  const std::size_t cores = allowed_cores().size();
  config.workers = a.workers > 0 ? a.workers : default_threads(cores, core_quota(), 1);
  if (config.threads == 0) config.threads = default_threads(cores, core_quota(), config.workers);
  RunOptions options = run_options(config);
  take_host_options(a.hosts, config.workers, options);
  refuse_one_site(config, options);
  options.servers = server_options(config, own_program());
  settle(config, open_data(config.data));
  options.command = {program, to_json(config).dump()};
  options.inherit_output = true;  // rank 0 draws
  return run_torch_workers(options);
}

// Data and run folder are on the hosts: rank 0 looks at them.
int train_on_hosts(TrainArguments& a) {
  a.config.workers = 0;
  RunOptions options = run_options(a.config);
  options.command = {remote_worker_program(a.hosts), to_json(a.config).dump()};
  take_host_options(a.hosts, a.workers > 0 ? std::optional(a.workers) : std::nullopt, options);
  options.remote.pass_also.emplace_back(kTunables);
  options.servers = server_options(a.config, remote_program(a.hosts));
  if (options.servers.count > 0)
    place_servers(options.remote.hosts, parse_server_hosts(*a.servers_on), options.servers.count);
  options.prefix = false;  // only rank 0 has something to say
  return run_torch_workers(options);
}

void refuse_to_start_more(const TrainArguments& a) {
  if (a.servers_on)
    throw Error(
        Code::invalid,
        "--servers-on is for jobs that paceline train starts; these workers have been started already, by "
        "mpirun, srun or `paceline run`: leave it out, and the servers of --where server:N are threads of them");
  if (a.workers == 0 && !a.hosts.several()) return;
  throw Error(Code::invalid,
              fmt::format("{} is for workers that paceline train starts; these have been started already, "
                          "by mpirun, srun or `paceline run`, which says how many and where",
                          a.workers > 0           ? "--workers"
                          : a.hosts.hosts.empty() ? "--hostfile"
                                                  : "--hosts"));
}

// The configuration, or why there is none.
std::string argument_of_started(TrainArguments& a, RunOptions& options) try {
  refuse_to_start_more(a);
  read_words(a);
  RunOptions taken = options;  // what is refused must not reach the environment
  take_host_options(a.hosts, std::nullopt, taken);
  options = taken;
  a.config.workers = 0;
  return to_json(a.config).dump();
} catch (const Error& error) {
  return nlohmann::json({{kRefused, error.what()}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One of the workers that somebody else has started: how many there are is known when they have met.
int become_worker(TrainArguments& a) {
  const std::string program = torch_worker_program();
  RunOptions options = run_options(a.config);
  options.command = {program, argument_of_started(a, options)};
  // Of threads a worker that does not know its share yet begins with one.
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
    set_variable(options.environment, name, std::to_string(std::max(1, a.threads)));
  std::vector<char*> words, environment;
  for (std::string& word : options.command) words.push_back(word.data());
  for (std::string& entry : options.environment) environment.push_back(entry.data());
  words.push_back(nullptr);
  environment.push_back(nullptr);
  execve(program.c_str(), words.data(), environment.data());
  throw system_error("cannot start " + program, errno);
}

int train_with(TrainArguments& arguments) {
  const StartedBy starter = started_by([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  if (starter != StartedBy::hand) return become_worker(arguments);
  read_words(arguments);
  reach_servers(arguments);
  return arguments.hosts.several() ? train_on_hosts(arguments) : train_here(arguments);
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("train", "Train a model on the workers of this machine, or of several");
  command->footer(
      "paceline train --model cnn --data fashion --workers 2 --until accuracy=0.9\n"
      "On two hosts: paceline train --hosts a:4,b:4 --model cnn, or mpirun -np 8 --host a:4,b:4 paceline train");
  auto arguments = std::make_shared<TrainArguments>();  // shared: the callback must be copyable
  add_train_options(*command, *arguments);
  command->callback([arguments, &exit_code] { exit_code = train_with(*arguments); });
}

}  // namespace paceline
