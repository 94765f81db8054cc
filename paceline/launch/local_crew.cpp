#include "paceline/launch/local_crew.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace paceline {

LocalCrew::LocalCrew(LocalCrewOptions options, Spawner& spawner, Outputs& outputs)
    : options_(std::move(options)), spawner_(spawner), outputs_(outputs) {
  workers_.reserve(static_cast<std::size_t>(options_.workers) + options_.servers.own.size());
}

LocalCrew::~LocalCrew() {
  signal(SIGKILL);
  for (Worker& worker : workers_) {
    while (worker.running() && !worker.reap()) poll(nullptr, 0, 1);
  }
}

std::optional<Failure> LocalCrew::start() {
  const Cores allowed = allowed_cores();
  threads_ = options_.threads.value_or(default_threads(allowed.size(), core_quota(), std::max(1, options_.workers)));
  const BindPlan plan = plan_binding(options_.bind, options_.workers, threads_, allowed, numa_nodes());
  if (!plan.remark.empty()) outputs_.say((options_.host.empty() ? "" : "on " + options_.host + ": ") + plan.remark);
  std::vector<Part> parts;
  const std::string file = find(options_.command);
  for (int i = 0; i < options_.workers; ++i)
    parts.push_back({options_.first_rank + i, options_.command, file, plan.workers[static_cast<std::size_t>(i)]});
  for (const int server : options_.servers.own)
    parts.push_back({options_.size + server, options_.servers.command, find(options_.servers.command), {}});
  for (const Part& part : parts) {
    if (auto failure = start_part(part)) return failure;
  }
  return std::nullopt;
}

std::string LocalCrew::find(const std::vector<std::string>& command) const {
  return find_program(command.front(), variable(options_.environment, "PATH"));
}

std::optional<Failure> LocalCrew::start_part(const Part& part) {
  Pipe output;
  Pipe errors;
  const bool reads = part.rank == 0 && options_.pass_input && isatty(STDIN_FILENO) == 0;
  Spawned spawned = spawner_.spawn({.file = part.file,
                                    .arguments = part.command,
                                    .environment = environment_of(part.rank),
                                    .standard = {reads ? STDIN_FILENO : spawner_.null(),
                                                 options_.inherit_output ? STDOUT_FILENO : output.write_end.number(),
                                                 options_.inherit_output ? STDERR_FILENO : errors.write_end.number()},
                                    .lifeline = lifeline_.read_end.number(),
                                    .cores = part.cores});
  if (spawned.error != 0) {
    const std::string program = part.command.front() + here();
    return Failure{.sentence = explain_start_failure(program, part.file, spawned.error),
                   .exit_code = start_failure_code(spawned.error),
                   .others_remain = false};
  }
  const std::string prefix = options_.prefix ? fmt::format("[{}] ", part.rank) : "";
  workers_.emplace_back(part.rank, Child(spawned.pid, std::move(spawned.process)),
                        Stream(std::move(output.read_end), outputs_.output_tag() + prefix, outputs_.output()),
                        Stream(std::move(errors.read_end), outputs_.error_tag() + prefix, outputs_.errors()));
  return std::nullopt;
}

EnvironmentList LocalCrew::environment_of(Rank rank) const {
  return worker_environment(options_.environment, {.rank = rank,
                                                   .size = options_.size,
                                                   .servers = options_.servers.all,
                                                   .store = options_.store,
                                                   .job = spawner_.job(),
                                                   .secret = options_.secret,
                                                   .lifeline = lifeline_.read_end.number(),
                                                   .threads = threads_,
                                                   .override_threads = options_.threads.has_value()});
}

bool LocalCrew::running() const {
  for (const Worker& worker : workers_) {
    if (worker.running()) return true;
  }
  return false;
}

bool LocalCrew::workers_run() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [this](const Worker& worker) { return worker.running() && worker.rank() < options_.size; });
}

void LocalCrew::watch(PollSet& set) const {
  for (const Worker& worker : workers_) worker.watch(set);
}

std::optional<Failure> LocalCrew::progress(const PollSet& set) {
  for (Worker& worker : workers_) worker.transfer(set);
  return reap();
}

std::optional<Failure> LocalCrew::reap() {
  // Deaths seen in one round have no order. The survivors of a crash soon exit with an error of their own, so that
  // among these a death by signal is the cause and an exit code the consequence.
  const Worker* failed = nullptr;
  Ending how;
  for (Worker& worker : workers_) {
    const auto ending = worker.reap();
    if (!ending) continue;
    spawner_.forget(worker.pid());
    const bool first = failed == nullptr || (ending->signalled && !how.signalled);
    if (ending->exit_code() == 0 || !first || is_follower(*ending)) continue;
    failed = &worker;
    how = *ending;
  }
  if (failed == nullptr) return std::nullopt;
  return Failure{.sentence = fmt::format("{} (pid {}) {}", describe_rank(failed->rank()), failed->pid(), describe(how)),
                 .exit_code = how.exit_code(),
                 .is_cause = how.signalled,
                 .others_remain = workers_run()};
}

std::string LocalCrew::describe_rank(Rank rank) const {
  const bool server = rank >= options_.size;
  return fmt::format("{}rank {}{}", server ? fmt::format("server {}, ", rank - options_.size) : "", rank, here());
}

// Nobody is left whom it could have followed: then it is the failure itself.
bool LocalCrew::is_follower(const Ending& ending) const {
  return !ending.signalled && ending.number == options_.follower_code && workers_run();
}

void LocalCrew::signal(int number) {
  for (const Worker& worker : workers_) worker.signal(number);
}

}  // namespace paceline
