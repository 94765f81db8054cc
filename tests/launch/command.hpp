// Command: a child process whose streams a test holds. Everything that waits has a deadline and fails the test at it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "paceline/fabric/descriptor.hpp"

namespace paceline {

struct Ended {
  int exit_code = -1;  // 128 + signal for one that was killed
  std::string output;
  std::string errors;
};

class Command {
 public:
  // `environment` is added to the test's own: NAME=value.
  explicit Command(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  Command(Command&& other) noexcept;
  ~Command();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void write(const std::string& text) const;
  void close_input() { input_ = Descriptor(); }
  void close_output() { output_ = Descriptor(); }
  // Reads until the output contains `text` so many times; returns all output so far.
  const std::string& read_until(const std::string& text, int times = 1);
  // Closes the command's input and waits for its end.
  Ended wait();

 private:
  bool read_some(int milliseconds);

  pid_t pid_ = -1;
  Descriptor input_;
  Descriptor output_;
  Descriptor errors_;
  Ended ended_;
};

// `paceline run ARGUMENTS…`
Command paceline_run(std::vector<std::string> arguments, const std::vector<std::string>& environment = {});
// The same with `sh -c SCRIPT` as the program.
Command run_script(std::vector<std::string> options, const std::string& script,
                   const std::vector<std::string>& environment = {});

// False if it does not become true within 20 seconds.
bool eventually(const std::function<bool()>& condition);
// No process of that number is running; a zombie is not.
bool gone(pid_t process);
// The letter of /proc/PID/stat: R, S, T, Z; '-' if there is no such process.
char state_of(pid_t process);
// The lines of a text, sorted.
std::vector<std::string> sorted_lines(const std::string& text);
// The numbers that follow each occurrence of `label`.
std::vector<pid_t> numbers_after(const std::string& text, const std::string& label);
bool contains(const std::string& text, const std::string& part);

}  // namespace paceline
