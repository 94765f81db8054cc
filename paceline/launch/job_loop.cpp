#include "paceline/launch/job_loop.hpp"

#include <algorithm>

namespace paceline {
namespace {

// SIGKILL does not fail, but the way to another host may: then it is sent once more.
constexpr auto kKillAgain = std::chrono::seconds(5);

}  // namespace

void JobLoop::add_source(int descriptor, std::function<bool()> progress) {
  sources_.push_back({descriptor, std::move(progress)});
}

int JobLoop::run() {
  while (parts_.crew.running()) step();
  if (parts_.at_end) parts_.at_end();
  while (!parts_.outputs.empty()) step();
  return exit_code_;
}

void JobLoop::step() {
  PollSet set;
  set.add(parts_.signals.descriptor(), POLLIN);
  for (const Source& source : sources_) set.add(source.descriptor, POLLIN);
  parts_.outputs.watch(set);
  parts_.crew.watch(set);
  set.wait(parts_.clock.now(), std::min(kill_at_, parts_.crew.deadline()));

  while (const auto number = parts_.signals.next()) on_signal(*number);
  std::erase_if(sources_, [&](const Source& source) { return set.ready(source.descriptor) && !source.progress(); });
  const auto failure = parts_.crew.progress(set);
  if (failure && phase_ == Phase::running) on_failure(*failure);
  parts_.outputs.write(set);
  check_output();
  if (parts_.clock.now() >= kill_at_) kill_all();
}

void JobLoop::on_signal(int number) {
  const bool asks_to_end = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
  if (asks_to_end && !parts_.crew.running()) return abandon_output(128 + number);
  if (number == SIGINT && ++interrupts_ > 1) return on_interrupt();
  parts_.crew.signal(number);
  // The workers stop, or not, as they like; the shell that sees us stopped gets its terminal back.
  if (number == SIGTSTP && parts_.stops_with_workers) raise(SIGSTOP);
}

// Only the output is still to be written, and its reader does not read: do not wait for it any longer.
void JobLoop::abandon_output(int exit_code) {
  if (phase_ == Phase::running) exit_code_ = exit_code;
  phase_ = Phase::killing;
  parts_.outputs.give_up();
}

// The second one: whoever presses Ctrl-C twice does not want to wait.
void JobLoop::on_interrupt() {
  if (phase_ == Phase::running) exit_code_ = 128 + SIGINT;
  kill_all();
}

void JobLoop::on_failure(const Failure& failure) {
  parts_.announce(failure);
  end_job(failure.exit_code);
}

void JobLoop::fail_to_start(const Failure& failure) {
  parts_.announce(failure);
  exit_code_ = failure.exit_code;
  kill_all();
}

// Nobody reads our output any more (paceline run … | head -1): there is no use in going on.
void JobLoop::check_output() {
  if (parts_.outputs.output().broken() && phase_ == Phase::running) end_job(128 + SIGPIPE);
}

void JobLoop::end_job(int exit_code) {
  exit_code_ = exit_code;
  phase_ = Phase::ending;
  kill_at_ = parts_.clock.after(parts_.grace);
  parts_.crew.signal(SIGTERM);
  parts_.crew.signal(SIGCONT);  // a stopped worker would not notice
}

void JobLoop::kill_all() {
  phase_ = Phase::killing;
  kill_at_ = parts_.clock.after(kKillAgain);
  parts_.crew.signal(SIGKILL);
}

}  // namespace paceline
