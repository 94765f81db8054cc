#include "paceline/launch/sweep.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace paceline {
namespace {

namespace fs = std::filesystem;
constexpr int kPasses = 100;
constexpr int kPauseMilliseconds = 10;

// The environment that the process was started with; empty for those of other users and for the dead.
bool carries(const fs::path& process, const std::string& mark) {
  std::ifstream stream(process / "environ", std::ios::binary);
  const std::string environment((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  return ('\0' + environment).find(mark) != std::string::npos;
}

bool kill_once(const std::string& mark) {
  bool found = false;
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; entry != end; entry.increment(ignored)) {
    const int process = std::atoi(entry->path().filename().c_str());
    if (process <= 1 || process == getpid() || !carries(entry->path(), mark)) continue;
    found = kill(process, SIGKILL) == 0 || found;
  }
  return found;
}

}  // namespace

void kill_job(const std::string& job) {
  const std::string mark = '\0' + std::string(kJobVariable) + "=" + job + '\0';
  for (int pass = 0; pass < kPasses && kill_once(mark); ++pass) poll(nullptr, 0, kPauseMilliseconds);
}

}  // namespace paceline
