#include "paceline/launch/local_crew.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace paceline {

LocalCrew::LocalCrew(LocalCrewOptions options, Spawner& spawner, Outputs& outputs)
    : options_(std::move(options)), spawner_(spawner), outputs_(outputs) {
  workers_.reserve(static_cast<std::size_t>(options_.workers));
}

LocalCrew::~LocalCrew() {
  signal(SIGKILL);
  for (Worker& worker : workers_) {
    while (worker.running() && !worker.reap()) poll(nullptr, 0, 1);
  }
}

std::optional<Failure> LocalCrew::start() {
  const Cores allowed = allowed_cores();
  threads_ = options_.threads.value_or(default_threads(allowed.size(), core_quota(), options_.workers));
  const BindPlan plan = plan_binding(options_.bind, options_.workers, threads_, allowed, numa_nodes());
  if (!plan.remark.empty()) outputs_.say((options_.host.empty() ? "" : "on " + options_.host + ": ") + plan.remark);
  const std::string file = find_program(options_.command.front(), variable(options_.environment, "PATH"));
  for (int i = 0; i < options_.workers; ++i) {
    if (auto failure = start_worker(options_.first_rank + i, file, plan.workers[static_cast<std::size_t>(i)]))
      return failure;
  }
  return std::nullopt;
}

std::optional<Failure> LocalCrew::start_worker(Rank rank, const std::string& file, const Cores& cores) {
  Pipe output;
  Pipe errors;
  const bool reads = rank == 0 && options_.pass_input && isatty(STDIN_FILENO) == 0;
  Spawned spawned = spawner_.spawn({.file = file,
                                    .arguments = options_.command,
                                    .environment = environment_of(rank),
                                    .standard = {reads ? STDIN_FILENO : spawner_.null(),
                                                 options_.inherit_output ? STDOUT_FILENO : output.write_end.number(),
                                                 options_.inherit_output ? STDERR_FILENO : errors.write_end.number()},
                                    .lifeline = lifeline_.read_end.number(),
                                    .cores = cores});
  if (spawned.error != 0) {
    const std::string program = options_.command.front() + here();
    return Failure{.sentence = explain_start_failure(program, file, spawned.error),
                   .exit_code = start_failure_code(spawned.error),
                   .others_remain = false};
  }
  const std::string prefix = options_.prefix ? fmt::format("[{}] ", rank) : "";
  workers_.emplace_back(rank, Child(spawned.pid, std::move(spawned.process)),
                        Stream(std::move(output.read_end), outputs_.output_tag() + prefix, outputs_.output()),
                        Stream(std::move(errors.read_end), outputs_.error_tag() + prefix, outputs_.errors()));
  return std::nullopt;
}

EnvironmentList LocalCrew::environment_of(Rank rank) const {
  return worker_environment(options_.environment, {.rank = rank,
                                                   .size = options_.size,
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
  return Failure{.sentence = fmt::format("rank {}{} (pid {}) {}", failed->rank(), here(), failed->pid(), describe(how)),
                 .exit_code = how.exit_code(),
                 .is_cause = how.signalled,
                 .others_remain = running()};
}

// Nobody is left whom it could have followed: then it is the failure itself.
bool LocalCrew::is_follower(const Ending& ending) const {
  return !ending.signalled && ending.number == options_.follower_code && running();
}

void LocalCrew::signal(int number) {
  for (const Worker& worker : workers_) worker.signal(number);
}

}  // namespace paceline
