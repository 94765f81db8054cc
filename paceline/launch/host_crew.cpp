#include "paceline/launch/host_crew.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/fabric/address.hpp"
#include "paceline/launch/host_protocol.hpp"
#include "paceline/launch/sweep.hpp"

namespace paceline {
namespace {

// The death of a worker ends its peers on other hosts, whose agents may report first. Who ended with an exit code is
// therefore blamed only if nobody is reported to have died of a signal within this time.
constexpr auto kSettle = std::chrono::milliseconds(250);
constexpr std::uint16_t kAnyPort = 9;  // nothing is sent there
constexpr const char* kLoopback = "127.0.0.1";

SocketAddress find_host(const std::string& name) {
  const std::size_t at = name.rfind('@');
  try {
    return resolve({at == std::string::npos ? name : name.substr(at + 1), kAnyPort});
  } catch (const Error&) {
    throw Error(Code::invalid, fmt::format("there is no address for host {}; if ssh knows it by that name, say with "
                                           "--address by which address the hosts reach this machine",
                                           name));
  }
}

std::string address_towards(const std::string& name) {
  const auto address = ip_towards(find_host(name));
  if (!address) throw system_error(fmt::format("there is no way to host {}", name), errno);
  return *address;
}

bool is_loopback_address(const std::string& ip) { return is_loopback(resolve({ip, kAnyPort})); }

std::string own_folder() {
  std::error_code error;
  const auto folder = std::filesystem::current_path(error);
  if (error) throw system_error("cannot tell the folder that this is", error.value());
  return folder.string();
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace

std::vector<std::string> ways_to_launcher(const HostOptions& options) {
  std::vector<std::string> ways;
  std::string outward = options.address;
  for (const Host& host : options.hosts) {
    const bool search = options.address.empty() && !host.is_here();
    ways.push_back(search ? address_towards(host.name) : options.address);
    if (outward.empty()) outward = ways.back();
  }
  // A worker here takes the way that others take, so that it is found by the address it takes for its own.
  for (std::string& way : ways) {
    if (way.empty()) way = outward.empty() ? kLoopback : outward;
  }
  return ways;
}

std::string listening_address(const std::vector<std::string>& ways) {
  const bool one = std::all_of(ways.begin(), ways.end(), [&](const std::string& way) { return way == ways.front(); });
  if (one && is_loopback_address(ways.front())) return ways.front();
  const bool ipv6 =
      std::any_of(ways.begin(), ways.end(), [](const std::string& way) { return way.find(':') != way.npos; });
  return ipv6 ? "::" : "0.0.0.0";
}

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || std::strchr("/._-+", letter) != nullptr;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char letter : text) letter == '\'' ? word.append("'\\''") : word.append(1, letter);
  return word + "'";
}

HostCrew::HostCrew(HostCrewOptions options, Spawner& spawner, Outputs& outputs, const Clock& clock)
    : options_(std::move(options)),
      spawner_(spawner),
      outputs_(outputs),
      clock_(clock),
      own_program_(own_program()),
      remote_program_(options_.run.remote.remote_paceline.empty() ? own_program_
                                                                  : options_.run.remote.remote_paceline) {}

HostCrew::~HostCrew() {
  for (HostLink& link : links_) {
    link.kill();
    while (link.running() && !link.reap()) poll(nullptr, 0, 1);
  }
}

std::optional<Failure> HostCrew::start() {
  Rank first_rank = 0;
  const auto& hosts = options_.run.remote.hosts;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (auto failure = start_link(hosts[i], options_.ways[i], first_rank)) return failure;
    first_rank += hosts[i].workers;
  }
  return std::nullopt;
}

std::vector<std::string> HostCrew::command_for(const Host& host) const {
  if (host.is_here()) return {own_program_, "host-agent"};
  std::vector<std::string> command = options_.run.remote.ssh;
  // ssh joins the words, and the shell on the other side takes them apart again.
  command.insert(command.end(), {host.name, shell_word(remote_program_), "host-agent"});
  return command;
}

std::optional<Failure> HostCrew::start_link(const Host& host, const std::string& way, Rank first_rank) {
  Pipe input;
  Pipe output;
  Pipe errors;
  EnvironmentList environment = options_.run.environment;
  // An agent here looks after its workers and its guardian itself, also when we are gone; ssh leaves that to us.
  if (!host.is_here()) set_variable(environment, kJobVariable, spawner_.job());
  const auto command = command_for(host);
  const std::string file = find_program(command.front(), variable(environment, "PATH"));
  Spawned spawned =
      spawner_.spawn({.file = file,
                      .arguments = command,
                      .environment = environment,
                      .standard = {input.read_end.number(), output.write_end.number(), errors.write_end.number()},
                      .cores = {}});
  if (spawned.error != 0) {
    return Failure{.sentence = explain_start_failure(command.front(), file, spawned.error),
                   .exit_code = start_failure_code(spawned.error),
                   .others_remain = false};
  }
  links_.emplace_back(HostLinkOptions{.host = host.name,
                                      .way = command.front(),
                                      .paceline = host.is_here() ? own_program_ : remote_program_,
                                      .job = job_for(host, way, first_rank)},
                      Child(spawned.pid, std::move(spawned.process)),
                      HostLink::Streams{.input = std::move(input.write_end),
                                        .output = std::move(output.read_end),
                                        .errors = std::move(errors.read_end)},
                      outputs_);
  return std::nullopt;
}

std::string HostCrew::job_for(const Host& host, const std::string& way, Rank first_rank) const {
  const RunOptions& run = options_.run;
  return job_line({.command = run.command,
                   .environment = variables_to_pass(run.environment, run.remote.pass_also),
                   .host = host.name,
                   .folder = own_folder(),
                   .first_rank = first_rank,
                   .workers = host.workers,
                   .size = workers_of(run.remote.hosts),
                   .servers = {.command = run.servers.command, .own = host.servers, .all = run.servers.count},
                   .store = to_string(Address{way, options_.store_port}),
                   .secret = options_.secret,
                   .threads = run.threads,
                   .bind = run.bind,
                   .grace = run.grace,
                   .prefix = run.prefix,
                   .follower_code = run.follower_code});
}

bool HostCrew::running() const {
  return std::any_of(links_.begin(), links_.end(), [](const HostLink& link) { return link.running(); });
}

bool HostCrew::others_work() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const HostLink& link) { return link.running() && !link.failed(); });
}

void HostCrew::watch(PollSet& set) const {
  for (const HostLink& link : links_) link.watch(set);
}

std::optional<Failure> HostCrew::progress(const PollSet& set) {
  for (HostLink& link : links_) {
    link.transfer(set);
    if (link.reap()) spawner_.forget(link.pid());
    if (auto failure = link.take_failure()) consider(std::move(*failure));
  }
  return verdict();
}

// The first failure, unless a later one must have been its cause.
void HostCrew::consider(Failure failure) {
  const auto weight = [this](const Failure& f) { return f.is_cause ? 2 : is_follower(f) ? 0 : 1; };
  if (candidate_ && weight(failure) <= weight(*candidate_)) return;
  candidate_ = std::move(failure);
  verdict_at_ = std::min(verdict_at_, is_follower(*candidate_) ? kNever : clock_.after(kSettle));
}

std::optional<Failure> HostCrew::verdict() {
  if (!candidate_) return std::nullopt;
  const bool others = others_work();
  if (!candidate_->is_cause && others && clock_.now() < verdict_at_) return std::nullopt;
  candidate_->others_remain = candidate_->others_remain || others;
  verdict_at_ = kNever;
  return std::exchange(candidate_, std::nullopt);
}

bool HostCrew::is_follower(const Failure& failure) const {
  return !failure.is_cause && failure.exit_code == options_.run.follower_code;
}

TimePoint HostCrew::deadline() const { return verdict_at_; }

void HostCrew::signal(int number) {
  const bool again = number == SIGKILL && std::exchange(killed_, true);
  for (HostLink& link : links_) again ? link.kill() : link.signal(number);
}

}  // namespace paceline
