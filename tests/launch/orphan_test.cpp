#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/launch/command.hpp"

namespace paceline {
namespace {

// Each worker has a child in its group and one that has left it for a session of its own.
const char kFamily[] = "sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; echo pid $$; ";

std::vector<pid_t> family_of(Command& job, int workers) {
  const auto processes = numbers_after(job.read_until("pid", 3 * workers) + job.read_until("\n", 3 * workers), "pid ");
  EXPECT_GE(processes.size(), static_cast<std::size_t>(3 * workers));
  return processes;
}

void expect_all_gone(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) EXPECT_TRUE(eventually([&] { return gone(process); })) << process;
}

std::vector<pid_t> guardians_of(pid_t launcher) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stream(entry.path() / "status");
    const std::string status((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const bool guardian = contains(status, "Name:\tpaceline-guard\n");
    if (guardian && contains(status, "PPid:\t" + std::to_string(launcher) + "\n")) {
      found.push_back(std::stoi(entry.path().filename()));
    }
  }
  return found;
}

TEST(Orphan, NoneIsLeftWhenTheLauncherIsKilled) {
  Command job = run_script({"-n", "2"}, std::string(kFamily) + "wait");
  const auto processes = family_of(job, 2);
  job.signal(SIGKILL);
  expect_all_gone(processes);
}

TEST(Orphan, NoneIsLeftWhenTheLauncherIsKilledWhileWorkersJoin) {
  Command job =
      run_script({"-n", "3"}, "echo pid $$; [ $PACELINE_RANK = 2 ] && exec sleep 1000; exec " PACELINE_WORKER);
  const auto processes = numbers_after(job.read_until("\n", 3), "pid ");
  job.signal(SIGKILL);
  expect_all_gone(processes);
}

TEST(Orphan, NoneIsLeftWhenTheLauncherAndItsGuardianAreKilled) {
  Command job = paceline_run({"-n", "2", "sh", "-c", "echo pid $$; exec " PACELINE_WORKER " stay"});
  const auto workers = numbers_after(job.read_until("rank", 2), "pid ");
  for (const pid_t guardian : guardians_of(job.pid())) kill(guardian, SIGKILL);
  job.signal(SIGKILL);
  expect_all_gone(workers);
}

TEST(Orphan, AWorkerThatEndsTakesItsFamilyAlong) {
  Command job = run_script({"-n", "2"}, std::string(kFamily) + "exit 0");
  const auto processes = family_of(job, 2);
  EXPECT_EQ(job.wait().exit_code, 0);
  expect_all_gone(processes);
}

TEST(Orphan, AFailureLeavesNoneEither) {
  Command job = run_script({"-n", "2", "--grace", "0.1"},
                           std::string(kFamily) + "trap '' TERM; read line; [ $PACELINE_RANK = 0 ] && exit 5; wait");
  const auto processes = family_of(job, 2);
  EXPECT_EQ(job.wait().exit_code, 5);
  expect_all_gone(processes);
}

TEST(Orphan, TheGuardianEndsWithItsLauncherAndHoldsNothing) {
  Command job = run_script({"-n", "1"}, "echo ready; read line; exit 0");
  job.read_until("ready");
  const auto guardians = guardians_of(job.pid());
  ASSERT_EQ(guardians.size(), 1u);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(guardians[0]) + "/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path());
    EXPECT_TRUE(entry.path().filename() == "3" || target == "/dev/null") << entry.path() << " is " << target;
  }
  EXPECT_EQ(job.wait().exit_code, 0);
  expect_all_gone(guardians);
}

}  // namespace
}  // namespace paceline
