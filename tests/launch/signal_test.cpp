#include <gtest/gtest.h>
#include <signal.h>

#include "tests/launch/command.hpp"

namespace paceline {
namespace {

struct Case {
  const char* name;
  int number;
};
class ForwardedSignal : public testing::TestWithParam<Case> {};

TEST_P(ForwardedSignal, ReachesEveryWorker) {
  const std::string name = GetParam().name;
  Command job = run_script(
      {"-n", "2"}, "trap 'echo got " + name + "; exit 0' " + name + "; echo ready; while :; do sleep 0.01; done");
  job.read_until("ready", 2);
  job.signal(GetParam().number);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "[0] got " + name));
  EXPECT_TRUE(contains(ended.output, "[1] got " + name));
}

INSTANTIATE_TEST_SUITE_P(All, ForwardedSignal,
                         testing::Values(Case{"INT", SIGINT}, Case{"TERM", SIGTERM}, Case{"HUP", SIGHUP},
                                         Case{"USR1", SIGUSR1}, Case{"USR2", SIGUSR2}),
                         [](const auto& test) { return test.param.name; });

TEST(Signal, AnInterruptedJobReturns130) {
  Command job = run_script({"-n", "2"}, "echo ready; exec sleep 1000");
  job.read_until("ready", 2);
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGINT);
}

TEST(Signal, TheSecondInterruptKillsAtOnce) {
  Command job =
      run_script({"-n", "2"}, "trap 'echo first' INT; trap '' TERM; echo ready; while :; do sleep 0.01; done");
  job.read_until("ready", 2);
  job.signal(SIGINT);
  job.read_until("first", 2);
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGINT);
}

TEST(Signal, StopAndContinueReachTheWorkers) {
  Command job = run_script({"-n", "2"}, "echo pid $$; exec sleep 1000");
  const auto workers = numbers_after(job.read_until("\n", 2), "pid ");
  job.signal(SIGTSTP);
  for (const pid_t worker : workers) EXPECT_TRUE(eventually([&] { return state_of(worker) == 'T'; }));
  EXPECT_TRUE(eventually([&] { return state_of(job.pid()) == 'T'; }));
  job.signal(SIGCONT);
  for (const pid_t worker : workers) EXPECT_TRUE(eventually([&] { return state_of(worker) != 'T'; }));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGTERM);
}

TEST(Signal, WorkersStartWithNothingBlocked) {
  const Ended ended = run_script({"-n", "1"}, "grep -E 'SigBlk|SigIgn' /proc/self/status").wait();
  EXPECT_TRUE(contains(ended.output, "SigBlk:\t0000000000000000")) << ended.output;
  EXPECT_TRUE(contains(ended.output, "SigIgn:\t0000000000000000")) << ended.output;
}

}  // namespace
}  // namespace paceline
