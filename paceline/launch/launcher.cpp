#include "paceline/launch/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/core/error.hpp"
#include "paceline/launch/descriptors.hpp"
#include "paceline/launch/guardian.hpp"
#include "paceline/launch/proof.hpp"
#include "paceline/launch/signals.hpp"
#include "paceline/launch/spawn.hpp"
#include "paceline/launch/store_server.hpp"
#include "paceline/launch/sweep.hpp"
#include "paceline/launch/worker.hpp"

namespace paceline {
namespace {

std::string explain_start_failure(const std::string& program, const std::string& file, int error) {
  const bool interpreter = error == ENOENT && access(file.c_str(), F_OK) == 0;
  return fmt::format("cannot start {}: {}", program,
                     interpreter ? "the interpreter it names does not exist" : strerror(error));
}

class Launcher {
 public:
  explicit Launcher(const RunOptions& options);
  ~Launcher();
  int run();

 private:
  bool start_workers();
  bool start_worker(Rank rank, const std::string& file, const Cores& cores);
  EnvironmentList environment_of(Rank rank) const;
  void fail_to_start(const std::string& file, int error);

  void step();
  bool done() const;
  void take_signals();
  void on_signal(int number);
  void on_interrupt();
  void abandon_output(int exit_code);
  void reap();
  void on_failure(const Worker& worker, const Ending& ending);
  void check_sinks();
  void end_job(int exit_code);
  void kill_all();
  void signal_all(int number) const;
  bool any_running() const;
  bool is_follower(const Ending& ending) const;
  void say(const std::string& sentence) { errors_->add("paceline: " + sentence + "\n"); }

  // Constant after construction. The guardian comes first, so that it inherits nothing of the rest.
  const RunOptions& options_;
  SteadyClock clock_;
  const std::string job_ = hex(random_bytes(16));
  Guardian guardian_{job_};
  Signals signals_;
  rlimit open_files_;
  Pipe lifeline_;
  Descriptor null_;
  std::string secret_ = hex(random_bytes(32));
  int threads_ = 1;

  StoreServer store_;
  Sink output_{STDOUT_FILENO};
  Sink own_errors_{STDERR_FILENO};
  Sink* errors_;
  std::vector<Worker> workers_;
  enum class Phase {
    running,  // all is well
    ending,   // a worker has failed: the others have had SIGTERM
    killing,  // they have had SIGKILL
  } phase_ = Phase::running;
  TimePoint kill_at_ = kNever;
  int exit_code_ = 0;
  int interrupts_ = 0;
};

Launcher::Launcher(const RunOptions& options)
    : options_(options),
      open_files_(raise_open_files()),
      null_(open("/dev/null", O_RDWR | O_CLOEXEC)),
      store_({.terms = {.secret = secret_}}, clock_),
      errors_(same_file(STDOUT_FILENO, STDERR_FILENO) ? &output_ : &own_errors_) {
  if (!null_.valid()) throw system_error("cannot open /dev/null", errno);
  workers_.reserve(static_cast<std::size_t>(options.workers));
}

// Workers still run here only when something threw.
Launcher::~Launcher() {
  signal_all(SIGKILL);
  for (Worker& worker : workers_) {
    while (worker.running() && !worker.reap()) poll(nullptr, 0, 1);
  }
  kill_job(job_);
}

int Launcher::run() {
  start_workers();
  while (!done()) step();
  return exit_code_;
}

bool Launcher::start_workers() {
  const Cores allowed = allowed_cores();
  threads_ = options_.threads.value_or(default_threads(allowed.size(), core_quota(), options_.workers));
  const BindPlan plan = plan_binding(options_.bind, options_.workers, threads_, allowed, numa_nodes());
  if (!plan.remark.empty()) say(plan.remark);
  const std::string file = find_program(options_.command.front(), variable(options_.environment, "PATH"));
  for (Rank rank = 0; rank < options_.workers; ++rank) {
    if (!start_worker(rank, file, plan.workers[static_cast<std::size_t>(rank)])) return false;
  }
  return true;
}

bool Launcher::start_worker(Rank rank, const std::string& file, const Cores& cores) {
  Pipe output;
  Pipe errors;
  const int input = rank == 0 && isatty(STDIN_FILENO) == 0 ? STDIN_FILENO : null_.number();
  Spawned spawned = spawn({.file = file,
                           .arguments = options_.command,
                           .environment = environment_of(rank),
                           .standard = {input, options_.inherit_output ? STDOUT_FILENO : output.write_end.number(),
                                        options_.inherit_output ? STDERR_FILENO : errors.write_end.number()},
                           .lifeline = lifeline_.read_end.number(),
                           .guardian = guardian_.descriptor(),
                           .cores = cores,
                           .signal_mask = signals_.original_mask(),
                           .open_files = open_files_});
  if (spawned.error != 0) {
    guardian_.forget(spawned.pid);
    fail_to_start(file, spawned.error);
    return false;
  }
  const std::string prefix = options_.prefix ? fmt::format("[{}] ", rank) : "";
  workers_.emplace_back(rank, spawned.pid, std::move(spawned.process),
                        Stream(std::move(output.read_end), prefix, output_),
                        Stream(std::move(errors.read_end), prefix, *errors_));
  return true;
}

EnvironmentList Launcher::environment_of(Rank rank) const {
  return worker_environment(options_.environment, {.rank = rank,
                                                   .size = options_.workers,
                                                   .store = to_string(store_.address()),
                                                   .job = job_,
                                                   .secret = secret_,
                                                   .lifeline = lifeline_.read_end.number(),
                                                   .threads = threads_,
                                                   .override_threads = options_.threads.has_value()});
}

void Launcher::fail_to_start(const std::string& file, int error) {
  say(explain_start_failure(options_.command.front(), file, error));
  exit_code_ = error == ENOENT ? 127 : 126;
  kill_all();
}

void Launcher::step() {
  PollSet set;
  set.add(signals_.descriptor(), POLLIN);
  set.add(store_.descriptor(), POLLIN);
  for (const Sink* sink : {&output_, &own_errors_}) {
    if (!sink->empty()) set.add(sink->descriptor(), POLLOUT);
  }
  for (const Worker& worker : workers_) worker.watch(set);
  set.wait(clock_.now(), kill_at_);

  take_signals();
  if (set.ready(store_.descriptor())) store_.progress();
  for (Worker& worker : workers_) worker.transfer(set);
  reap();
  for (Sink* sink : {&output_, &own_errors_}) {
    if (set.ready(sink->descriptor())) sink->write_some();
  }
  check_sinks();
  if (clock_.now() >= kill_at_) kill_all();
}

bool Launcher::done() const { return !any_running() && output_.empty() && own_errors_.empty(); }

bool Launcher::any_running() const {
  for (const Worker& worker : workers_) {
    if (worker.running()) return true;
  }
  return false;
}

void Launcher::take_signals() {
  while (const auto number = signals_.next()) on_signal(*number);
}

void Launcher::on_signal(int number) {
  const bool asks_to_end = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
  if (asks_to_end && !any_running()) return abandon_output(128 + number);
  if (number == SIGINT && ++interrupts_ > 1) return on_interrupt();
  signal_all(number);
  // The workers stop, or not, as they like; the shell that sees us stopped gets its terminal back.
  if (number == SIGTSTP) raise(SIGSTOP);
}

// Only the output is still to be written, and its reader does not read: do not wait for it any longer.
void Launcher::abandon_output(int exit_code) {
  if (phase_ == Phase::running) exit_code_ = exit_code;
  phase_ = Phase::killing;
  output_.give_up();
  own_errors_.give_up();
}

// The second one: whoever presses Ctrl-C twice does not want to wait.
void Launcher::on_interrupt() {
  if (phase_ == Phase::running) exit_code_ = 128 + SIGINT;
  kill_all();
}

void Launcher::reap() {
  // Deaths seen in one round have no order. The survivors of a crash soon exit with an error of their own, so that
  // among these a death by signal is the cause and an exit code the consequence.
  const Worker* failed = nullptr;
  Ending how;
  for (Worker& worker : workers_) {
    const auto ending = worker.reap();
    if (!ending) continue;
    guardian_.forget(worker.pid());
    const bool first = failed == nullptr || (ending->signalled && !how.signalled);
    if (ending->exit_code() == 0 || !first || is_follower(*ending)) continue;
    failed = &worker;
    how = *ending;
  }
  if (failed != nullptr && phase_ == Phase::running) on_failure(*failed, how);
}

// Nobody is left whom it could have followed: then it is the failure itself.
bool Launcher::is_follower(const Ending& ending) const {
  return !ending.signalled && ending.number == options_.follower_code && any_running();
}

void Launcher::on_failure(const Worker& worker, const Ending& ending) {
  say(fmt::format("rank {} (pid {}) {}{}", worker.rank(), worker.pid(), describe(ending),
                  any_running() ? "; ending the other workers" : ""));
  end_job(ending.exit_code());
}

// Nobody reads our output any more (paceline run … | head -1): there is no use in going on.
void Launcher::check_sinks() {
  if (output_.broken() && phase_ == Phase::running) end_job(128 + SIGPIPE);
}

void Launcher::end_job(int exit_code) {
  exit_code_ = exit_code;
  phase_ = Phase::ending;
  kill_at_ = clock_.after(options_.grace);
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // a stopped worker would not notice
}

void Launcher::kill_all() {
  phase_ = Phase::killing;
  kill_at_ = kNever;
  signal_all(SIGKILL);
}

void Launcher::signal_all(int number) const {
  for (const Worker& worker : workers_) worker.signal(number);
}

}  // namespace

int run(const RunOptions& options) {
  occupy_standard_descriptors();
  return Launcher(options).run();
}

}  // namespace paceline
