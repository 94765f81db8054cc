#include "paceline/launch/host_link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include "paceline/launch/host_protocol.hpp"
#include "paceline/launch/line_prefix.hpp"

namespace paceline {
namespace {

// More than a line of a worker with all that is put before it.
constexpr std::size_t kMaxLine = LinePrefix::kMaxLine + 1024;
// What ssh returns when the failure is its own.
constexpr int kSshFailed = 255;

}  // namespace

HostLink::HostLink(HostLinkOptions options, Child process, Streams streams, Outputs& outputs)
    : options_(std::move(options)),
      outputs_(outputs),
      process_(std::move(process)),
      input_(std::move(streams.input)),
      orders_(input_.number()),
      output_(std::move(streams.output)),
      errors_(std::move(streams.errors)),
      output_lines_(kMaxLine),
      error_lines_(kMaxLine) {
  fcntl(input_.number(), F_SETFL, O_NONBLOCK);
}

void HostLink::watch(PollSet& set) const {
  process_.watch(set);
  if (!outputs_.output().full() && !outputs_.errors().full()) output_.watch(set);
  errors_.watch(set);
  if (input_.valid() && !orders_.empty()) set.add(input_.number(), POLLOUT);
}

void HostLink::transfer(const PollSet& set) {
  output_.transfer(set, [this](std::string_view bytes) { take_output(bytes); });
  errors_.transfer(set, [this](std::string_view bytes) { take_errors(bytes); });
  if (input_.valid() && set.ready(input_.number())) orders_.write_some();
}

void HostLink::take_output(std::string_view bytes) {
  output_lines_.add(bytes);
  while (const auto line = output_lines_.next()) on_line(*line);
}

// Before the greeting only the last line is kept: it is the one that explains.
void HostLink::take_errors(std::string_view bytes) {
  error_lines_.add(bytes);
  while (auto line = error_lines_.next()) {
    while (!line->empty() && (line->back() == '\r' || line->back() == ' ')) line->pop_back();
    if (line->empty()) continue;
    last_error_ = *line;
    if (state_ == State::working) outputs_.say(fmt::format("host {}: {}", options_.host, *line));
  }
}

void HostLink::on_line(const std::string& line) {
  if (state_ == State::working) return on_message(line);
  if (state_ == State::ended) return;
  if (const auto version = greeting_version(line)) return on_greeting(*version);
  if (!line.empty()) last_noise_ = line;
}

// The secret goes to nobody who has not greeted as one of us.
void HostLink::on_greeting(const std::string& version) {
  if (version != own_version()) {
    return break_off(fmt::format("host {} has paceline {} and this is {}: all hosts must have the same version",
                                 options_.host, version, own_version()));
  }
  if (asked_to_end_ != 0) return;
  state_ = State::working;
  send(options_.job);
  options_.job.clear();
}

void HostLink::on_message(const std::string& line) {
  const char tag = line.empty() ? '\0' : line.front();
  switch (tag) {
    case Outputs::kOutputTag: return outputs_.output().add(line.substr(1) + "\n");
    case Outputs::kErrorTag: return outputs_.errors().add(line.substr(1) + "\n");
    case kReportTag: return on_report(line.substr(1));
    default: return break_off(fmt::format("host {} does not speak as a host agent does", options_.host));
  }
}

void HostLink::on_report(const std::string& line) {
  try {
    Report report = parse_report(line);
    if (report.failure) fail(std::move(*report.failure));
    if (!report.ended) return;
    state_ = State::ended;
    input_ = Descriptor();
  } catch (const Error& error) {
    break_off(fmt::format("host {}: {}", options_.host, error.what()));
  }
}

// At once if there is room: this process may be about to stop.
void HostLink::send(const std::string& line) {
  if (!input_.valid()) return;
  orders_.add(line);
  orders_.write_some();
}

void HostLink::signal(int number) {
  if (!running()) return;
  if (state_ != State::connecting) return send(signal_line(number));
  if (number == SIGUSR1 || number == SIGUSR2 || number == SIGTSTP || number == SIGCONT) return;
  asked_to_end_ = number;
  kill();
}

void HostLink::kill() const { process_.signal(SIGKILL); }

void HostLink::fail(Failure failure) {
  if (failed_) return;
  failed_ = true;
  failure_ = std::move(failure);
}

void HostLink::break_off(const std::string& sentence) {
  fail({.sentence = sentence, .others_remain = false});
  state_ = State::ended;
  input_ = Descriptor();
  kill();
}

bool HostLink::reap() {
  const auto ending = process_.reap();
  if (!ending) return false;
  output_.finish([this](std::string_view bytes) { take_output(bytes); });
  errors_.finish([this](std::string_view bytes) { take_errors(bytes); });
  take_errors("\n");
  input_ = Descriptor();
  if (state_ != State::ended) fail(explain(*ending));
  return true;
}

std::optional<Failure> HostLink::take_failure() { return std::exchange(failure_, std::nullopt); }

std::string HostLink::last_words(const Ending& ending) const {
  if (!last_error_.empty()) return last_error_;
  if (!last_noise_.empty()) return last_noise_;
  return options_.way + " " + describe(ending);
}

// Why the process ended before the workers did.
Failure HostLink::explain(const Ending& ending) const {
  const std::string& host = options_.host;
  const std::string words = last_words(ending);
  if (asked_to_end_ != 0) {
    return {.sentence = fmt::format("interrupted before host {} answered", host),
            .exit_code = 128 + asked_to_end_,
            .others_remain = false};
  }
  std::string sentence;
  if (state_ == State::working) {
    sentence = fmt::format("the connection to host {} was lost: {}", host, words);
  } else if (!ending.signalled && (ending.number == 126 || ending.number == 127)) {
    sentence =
        fmt::format("host {} cannot start {}: {}; install paceline there or say where it is with --remote-paceline",
                    host, options_.paceline, words);
  } else if (ending.exit_code() == kSshFailed) {
    sentence = fmt::format("host {} cannot be reached: {}", host, words);
  } else {
    sentence = fmt::format("{} on host {} does not answer as paceline {} does: {}", options_.paceline, host,
                           own_version(), words);
  }
  return {.sentence = sentence, .others_remain = false};
}

}  // namespace paceline
