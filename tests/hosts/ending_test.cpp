#include <signal.h>

#include <cstdio>

#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

class Ending : public HostsTest {};

TEST_F(Ending, AFailureOnAnotherHostIsTheVerdict) {
  const Ended ended =
      lan().run_script({{1, 2}, {2, 2}}, "echo pid $$; [ $PACELINE_RANK = 3 ] && exit 42; exec sleep 1000").wait();
  EXPECT_EQ(ended.exit_code, 42);
  const auto process = numbers_after(ended.output, "[3] pid ").at(0);
  EXPECT_EQ(ended.errors, "paceline: rank 3 on " + lan().ip(2) + " (pid " + std::to_string(process) +
                              ") ended with exit code 42; ending the other workers\n");
}

TEST_F(Ending, ASignalCountsAs128PlusItsNumber) {
  const Ended ended =
      lan().run_script({{1, 1}, {2, 1}}, "[ $PACELINE_RANK = 1 ] && kill -9 $$; exec sleep 1000").wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(contains(ended.errors, "rank 1 on " + lan().ip(2))) << ended.errors;
  EXPECT_TRUE(contains(ended.errors, "was killed by signal 9 (Killed)")) << ended.errors;
}

TEST_F(Ending, AWorkerAloneEndsNobodyElse) {
  const Ended ended = lan().run_script({{1, 1}}, "exit 3").wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_FALSE(contains(ended.errors, "ending the other workers")) << ended.errors;
}

// As when a worker crashes and its peers give up with an exit code, and their agent is the first to report.
TEST_F(Ending, ADeathIsTheCauseOfAnExitCodeOnAnotherHost) {
  Command job = lan().run_script({{1, 1}, {2, 1}},
                                 "echo pid $$; [ $PACELINE_RANK = 1 ] && exec sleep 1000;"
                                 "while [ ! -e die ]; do sleep 0.01; done; exit 5");
  const std::string output = job.read_until("\n", 2);
  std::fclose(std::fopen((lan().folder() + "/die").c_str(), "w"));
  EXPECT_TRUE(eventually([&] { return gone(numbers_after(output, "[0] pid ").at(0)); }));
  kill(numbers_after(output, "[1] pid ").at(0), SIGSEGV);
  const Ended ended = job.wait();
  std::remove((lan().folder() + "/die").c_str());
  EXPECT_EQ(ended.exit_code, 128 + SIGSEGV) << ended.errors;
}

TEST_F(Ending, TheOthersMayTidyUp) {
  Command job = lan().run_script({{1, 1}, {2, 1}},
                                 "if [ $PACELINE_RANK = 0 ]; then while [ ! -e go ]; do sleep 0.01; done; exit 7; fi;"
                                 "trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
  job.read_until("ready");
  std::fclose(std::fopen((lan().folder() + "/go").c_str(), "w"));
  const Ended ended = job.wait();
  std::remove((lan().folder() + "/go").c_str());
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_EQ(ended.output, "[1] ready\n[1] tidy\n");
}

TEST_F(Ending, WhoDoesNotEndInTimeIsKilledOnAllHosts) {
  Command job = lan().run_script(
      {{1, 2}, {2, 2}}, "trap '' TERM; echo pid $$; [ $PACELINE_RANK = 3 ] && exit 7; while :; do sleep 1; done",
      {"--grace", "0.2"});
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 7);
  for (int host = 1; host <= 2; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); }));
}

TEST_F(Ending, AReaderWhoLeavesEndsTheJob) {
  Command job = lan().run_script({{1, 1}, {2, 1}}, "while echo tick; do :; done");
  job.read_until("tick");
  job.close_output();
  EXPECT_EQ(job.wait().exit_code, 128 + SIGPIPE);
  for (int host = 1; host <= 2; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); }));
}

TEST_F(Ending, ALauncherThatIsKilledLeavesNothingOnAnyHost) {
  // Each worker has a child in its group and one in a session of its own.
  Command job = lan().run({"--hosts", lan().ip(1) + ":2," + lan().ip(2) + ":1,localhost:1", "sh", "-c",
                           "sleep 1000 & setsid sleep 1000 & echo ready; wait"});
  job.read_until("ready", 4);
  for (int host = 0; host < 3; ++host) EXPECT_FALSE(lan().processes(host).empty());
  job.signal(SIGKILL);
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); })) << host;
}

TEST_F(Ending, AJobThatEndsLeavesNothingOnAnyHost) {
  const Ended ended = lan().run_script({{1, 2}, {2, 1}}, "sleep 1000 & setsid sleep 1000 & exit 0").wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
  // Who has been killed may take a moment to be gone.
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); })) << host;
}

}  // namespace
}  // namespace paceline
