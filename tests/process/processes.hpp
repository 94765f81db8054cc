// For tests on real processes: ranks as forked children over the shm back end, and what must be gone after them.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "paceline/fabric/shm/run_processes.hpp"

namespace paceline::process_test {

// Runs body on n processes and expects all of them to end well, except that `victims` are killed.
inline void run_processes(int n, const std::function<void(Endpoint&)>& body, const std::set<Rank>& victims = {}) {
  const auto endings = shm::run_processes(n, [&](Endpoint& endpoint) {
    body(endpoint);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  for (Rank rank = 0; rank < n; ++rank) {
    const int ending = endings[static_cast<std::size_t>(rank)];
    if (victims.contains(rank)) {
      EXPECT_TRUE(WIFSIGNALED(ending) && WTERMSIG(ending) == SIGKILL)
          << "rank " << rank << " was to be killed, its ending is " << ending;
    } else {
      EXPECT_EQ(ending, 0) << "rank " << rank;
    }
  }
}

inline void expect_nothing_left() {
  int status = 0;
  EXPECT_TRUE(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD) << "a child is left";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_EQ(entry.path().filename().string().find("paceline"), std::string::npos) << entry.path() << " is left";
  }
}

}  // namespace paceline::process_test
