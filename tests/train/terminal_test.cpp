// On a terminal a run draws a line of progress over itself.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

// All that a command writes to a terminal of that many columns, and its exit code.
Ended on_terminal(unsigned short columns, const Words& words, const Words& environment) {
  const winsize size = {.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t process = forkpty(&terminal, nullptr, nullptr, &size);
  if (process == 0) {
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    execv(arguments[0], arguments.data());
    _exit(99);
  }
  Ended ended;
  const bool over = eventually([&] {
    pollfd entry = {terminal, POLLIN, 0};
    if (poll(&entry, 1, 50) == 0) return false;
    char buffer[4096];
    const ssize_t got = read(terminal, buffer, sizeof buffer);
    if (got > 0) ended.output.append(buffer, static_cast<std::size_t>(got));
    return got <= 0;  // EIO when the last process has closed its end
  });
  EXPECT_TRUE(over) << ended.output;
  if (!over) kill(process, SIGKILL);
  close(terminal);
  int status = 0;
  waitpid(process, &status, 0);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

// Without escapes; a line of progress has no others than colours and "clear to the end".
std::string visible(const std::string& text) {
  std::string left;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      at = text.find_first_of("mK", at);
      if (at == std::string::npos) break;
    } else {
      left += text[at];
    }
  }
  return left;
}

std::size_t columns_of(const std::string& text) {
  const std::string seen = visible(text);
  return static_cast<std::size_t>(std::count_if(seen.begin(), seen.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// What stands between a carriage return and "clear to the end of the line".
Words progress_lines(const std::string& output) {
  Words lines;
  for (std::size_t at = output.find('\r'); at != std::string::npos; at = output.find('\r', at + 1)) {
    const std::size_t end = output.find("\x1b[K", at);
    const std::string line = output.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    if (end != std::string::npos && line.find_first_of("\r\n") == std::string::npos && !line.empty())
      lines.push_back(line);
  }
  return lines;
}

class Terminal : public testing::TestWithParam<unsigned short> {};

TEST_P(Terminal, TheLineOfProgressIsDrawnOverItselfAndFits) {
  const unsigned short columns = GetParam();
  const TrainRun run;
  Words words = {PACELINE_PROGRAM, "train", "--out", run.folder()};
  for (const std::string& word : small_run({"--epochs", "40"})) words.push_back(word);
  const Ended ended = on_terminal(columns, words, run.environment());
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  const Words lines = progress_lines(ended.output);
  ASSERT_GE(lines.size(), 2u) << ended.output;
  for (const std::string& line : lines) EXPECT_LE(columns_of(line), columns) << line;
  EXPECT_TRUE(contains(lines[0], columns < 20 ? "1/12" : "epoch 1/40")) << lines[0];
  // The last one has been cleared, and the lines that stay have no escapes inside.
  const std::string end = visible(ended.output.substr(ended.output.rfind("\x1b[K")));
  EXPECT_TRUE(contains(end, "all epochs done") && contains(end, "report: ")) << end;
  run.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Columns, Terminal, testing::Values(16, 60, 200));

}  // namespace
}  // namespace paceline
