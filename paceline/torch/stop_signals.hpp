// StopSignals: Ctrl-C, SIGTERM and SIGUSR1 as a wish to stop after the current step.
#pragma once

#include <string>

namespace paceline {

// Takes the signals over for as long as it lives. One at a time, on the main thread. The signals do nothing but set a
// flag; whoever wants a worker gone at once sends SIGKILL, as `paceline train` does on a second Ctrl-C.
class StopSignals {
 public:
  static constexpr int kCount = 3;

  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Which of them has come, by index; -1: none yet.
  int pending() const;
  // "SIGINT" and its number.
  static std::string name(int index);
  static int number(int index);
};

}  // namespace paceline
