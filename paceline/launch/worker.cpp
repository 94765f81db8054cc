#include "paceline/launch/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cstring>

namespace paceline {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
// The most that a pipe holds by default limits: a descendant that escaped and writes on must not keep us.
constexpr int kReadsAtEnd = 16;

}  // namespace

std::string describe(const Ending& ending) {
  if (!ending.signalled) return fmt::format("ended with exit code {}", ending.number);
  return fmt::format("was killed by signal {} ({})", ending.number, strsignal(ending.number));
}

Stream::Stream(Descriptor pipe, std::string prefix, Sink& sink)
    : pipe_(std::move(pipe)), lines_(std::move(prefix)), sink_(&sink) {
  fcntl(pipe_.number(), F_SETFL, O_NONBLOCK);
}

void Stream::watch(PollSet& set) const {
  if (pipe_.valid() && !sink_->full()) set.add(pipe_.number(), POLLIN);
}

void Stream::transfer(const PollSet& set) {
  if (pipe_.valid() && set.ready(pipe_.number())) read_some();
}

// False when there is nothing more to read now, or ever.
bool Stream::read_some() {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = read(pipe_.number(), buffer.data(), buffer.size());
  if (got > 0) sink_->add(lines_.feed({buffer.data(), static_cast<std::size_t>(got)}));
  if (got == 0) pipe_ = Descriptor();  // closed by the worker, which may live on
  return got > 0;
}

void Stream::finish() {
  for (int i = 0; i < kReadsAtEnd && pipe_.valid() && read_some(); ++i) {
  }
  sink_->add(lines_.finish());
  pipe_ = Descriptor();
}

Worker::Worker(Rank rank, pid_t pid, Descriptor process, Stream output, Stream errors)
    : rank_(rank), pid_(pid), process_(std::move(process)), output_(std::move(output)), errors_(std::move(errors)) {}

void Worker::watch(PollSet& set) const {
  if (running()) set.add(process_.number(), POLLIN);
  output_.watch(set);
  errors_.watch(set);
}

void Worker::transfer(const PollSet& set) {
  output_.transfer(set);
  errors_.transfer(set);
}

void Worker::signal(int number) const {
  if (running()) kill(-pid_, number);
}

std::optional<Ending> Worker::reap() {
  siginfo_t info = {};
  if (!running() || waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return std::nullopt;
  if (info.si_pid == 0) return std::nullopt;
  // While the worker is a zombie its group's number cannot be given to others.
  kill(-pid_, SIGKILL);
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  process_ = Descriptor();
  output_.finish();
  errors_.finish();
  return Ending{.signalled = info.si_code != CLD_EXITED, .number = info.si_status};
}

}  // namespace paceline
