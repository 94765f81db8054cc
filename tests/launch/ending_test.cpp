#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/launch/command.hpp"

namespace paceline {
namespace {

TEST(Ending, AllWellIsZero) {
  const Ended ended = run_script({"-n", "4"}, "exit 0").wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.errors, "");
}

TEST(Ending, TheFirstFailuresExitCodeIsReturnedAndExplained) {
  Command job = run_script({"-n", "3"}, "echo pid $$; [ $PACELINE_RANK = 1 ] && exit 42; exec sleep 1000");
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 42);
  const auto process = numbers_after(ended.output, "[1] pid ").at(0);
  EXPECT_EQ(ended.errors, "paceline: rank 1 (pid " + std::to_string(process) +
                              ") ended with exit code 42; ending the other workers\n");
}

TEST(Ending, AKilledWorkerCountsAs128PlusItsSignal) {
  const Ended ended = run_script({"-n", "2"}, "[ $PACELINE_RANK = 1 ] && kill -9 $$; exec sleep 1000").wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(contains(ended.errors, "was killed by signal 9 (Killed)")) << ended.errors;
}

TEST(Ending, TheOthersMayTidyUp) {
  Command job = run_script({"-n", "2"},
                           "if [ $PACELINE_RANK = 0 ]; then read line; exit 7; fi;"
                           "trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
  job.read_until("ready");
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_EQ(ended.output, "[1] ready\n[1] tidy\n");
}

TEST(Ending, WhoDoesNotEndInTimeIsKilled) {
  const Ended ended = run_script({"-n", "2", "--grace", "0.2"},
                                 "trap '' TERM; [ $PACELINE_RANK = 1 ] && exit 7; while :; do sleep 1; done")
                          .wait();
  EXPECT_EQ(ended.exit_code, 7);
}

TEST(Ending, AStoppedWorkerIsEndedToo) {
  const Ended ended =
      run_script({"-n", "2"}, "[ $PACELINE_RANK = 1 ] && exit 7; kill -STOP $$; exec sleep 1000").wait();
  EXPECT_EQ(ended.exit_code, 7);
}

TEST(Start, AProgramThatIsNotThereIs127) {
  const Ended ended = paceline_run({"-n", "4", "no-such-program"}).wait();
  EXPECT_EQ(ended.exit_code, 127);
  EXPECT_EQ(ended.errors, "paceline: cannot start no-such-program: No such file or directory\n");
}

TEST(Start, AFileThatCannotBeRunIs126) { EXPECT_EQ(paceline_run({"-n", "4", "/etc/passwd"}).wait().exit_code, 126); }

TEST(Start, AScriptWhoseInterpreterIsMissingIsExplained) {
  const std::string script = testing::TempDir() + "paceline_script_" + std::to_string(getpid());
  std::ofstream(script) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Ended ended = paceline_run({"-n", "2", script}).wait();
  std::filesystem::remove(script);
  EXPECT_EQ(ended.exit_code, 127);
  EXPECT_TRUE(contains(ended.errors, "the interpreter it names does not exist")) << ended.errors;
}

TEST(Start, ArgumentsOfTheProgramAreNotTheLaunchers) {
  const Ended ended = paceline_run({"-n", "1", "echo", "-n", "7", "--threads", "x", "run", "--help"}).wait();
  EXPECT_EQ(ended.output, "[0] 7 --threads x run --help\n");
}

TEST(Start, WithoutAProgramItSaysSo) {
  const Ended ended = paceline_run({"-n", "2"}).wait();
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(contains(ended.errors, "PROGRAM")) << ended.errors;
}

}  // namespace
}  // namespace paceline
