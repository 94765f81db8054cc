#include "tests/launch/command.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace paceline {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

using Pipe = std::array<Descriptor, 2>;
Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

}  // namespace

Command::Command(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const auto arguments = pointers(command);
  auto variables = pointers(environment);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0].number(), 0);
    dup2(out[1].number(), 1);
    dup2(err[1].number(), 2);
    // Whoever runs the tests in the background or under nohup ignores some of these, and that would be inherited.
    for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
    for (char** variable = variables.data(); *variable != nullptr; ++variable) putenv(*variable);
    execv(arguments[0], arguments.data());
    _exit(99);
  }
  input_ = std::move(in[1]);
  output_ = std::move(out[0]);
  errors_ = std::move(err[0]);
}

Command::Command(Command&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      ended_(std::move(other.ended_)) {}

Command::~Command() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Command::signal(int number) const { kill(pid_, number); }

void Command::write(const std::string& text) const {
  EXPECT_EQ(::write(input_.number(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

// False when both streams have ended.
bool Command::read_some(int milliseconds) {
  pollfd entries[2] = {{output_.number(), POLLIN, 0}, {errors_.number(), POLLIN, 0}};
  poll(entries, 2, milliseconds);
  const auto take = [](Descriptor& from, const pollfd& entry, std::string& into) {
    if (!from.valid() || entry.revents == 0) return;
    std::array<char, 65536> buffer;
    const ssize_t got = read(from.number(), buffer.data(), buffer.size());
    if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0) from = Descriptor();
  };
  take(output_, entries[0], ended_.output);
  take(errors_, entries[1], ended_.errors);
  return output_.valid() || errors_.valid();
}

const std::string& Command::read_until(const std::string& text, int times) {
  const auto arrived = [&] { return count(ended_.output, text) >= times; };
  EXPECT_TRUE(eventually([&] { return arrived() || !read_some(50) || arrived(); }) && arrived())
      << "no '" << text << "' in: " << ended_.output << "\nerrors: " << ended_.errors;
  return ended_.output;
}

Ended Command::wait() {
  close_input();
  EXPECT_TRUE(eventually([&] { return !read_some(50); })) << "still running; output so far: " << ended_.output;
  int status = 0;
  const bool over = eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  EXPECT_TRUE(over);
  if (!over) return std::move(ended_);
  pid_ = -1;
  ended_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return std::move(ended_);
}

Command paceline_run(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), {PACELINE_PROGRAM, "run"});
  return Command(arguments, environment);
}

Command run_script(std::vector<std::string> options, const std::string& script,
                   const std::vector<std::string>& environment) {
  options.insert(options.end(), {"sh", "-c", script});
  return paceline_run(std::move(options), environment);
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

char state_of(pid_t process) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(stream, line)) return '-';
  return line[line.rfind(')') + 2];
}

bool gone(pid_t process) {
  const char state = state_of(process);
  return state == '-' || state == 'Z' || state == 'X';
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<pid_t> numbers_after(const std::string& text, const std::string& label) {
  std::vector<pid_t> numbers;
  for (std::size_t at = text.find(label); at != std::string::npos; at = text.find(label, at + 1)) {
    numbers.push_back(std::atoi(text.c_str() + at + label.size()));
  }
  return numbers;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace paceline
