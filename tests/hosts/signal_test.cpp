#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

class Signal : public HostsTest {};

void expect_passed_on(const Lan& lan, const std::string& name, int number) {
  Command job = lan.run_script(
      {{1, 1}, {2, 1}}, "trap 'echo got " + name + "; exit 0' " + name + "; echo ready; while :; do sleep 0.01; done");
  job.read_until("ready", 2);
  job.signal(number);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "[0] got " + name)) << ended.output;
  EXPECT_TRUE(contains(ended.output, "[1] got " + name)) << ended.output;
}

TEST_F(Signal, ReachesTheWorkersOfAllHosts) {
  expect_passed_on(lan(), "INT", SIGINT);
  expect_passed_on(lan(), "TERM", SIGTERM);
  expect_passed_on(lan(), "USR1", SIGUSR1);
}

TEST_F(Signal, AnInterruptedJobReturns130AndLeavesNothing) {
  Command job = lan().run_script({{1, 2}, {2, 2}}, "echo ready; exec sleep 1000");
  job.read_until("ready", 4);
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGINT);
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); })) << host;
}

TEST_F(Signal, TheSecondInterruptKillsAtOnce) {
  Command job = lan().run_script({{1, 1}, {2, 1}},
                                 "trap 'echo first' INT; trap '' TERM; echo ready; while :; do sleep 0.01; done",
                                 {"--grace", "1000"});
  job.read_until("ready", 2);
  job.signal(SIGINT);
  job.read_until("first", 2);
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGINT);
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); })) << host;
}

TEST_F(Signal, StopAndContinueReachTheWorkers) {
  Command job = lan().run_script({{1, 1}, {2, 1}}, "echo pid $$; exec sleep 1000");
  const auto workers = numbers_after(job.read_until("\n", 2), "pid ");
  job.signal(SIGTSTP);
  for (const pid_t worker : workers) EXPECT_TRUE(eventually([&] { return state_of(worker) == 'T'; }));
  EXPECT_TRUE(eventually([&] { return state_of(job.pid()) == 'T'; }));
  job.signal(SIGCONT);
  for (const pid_t worker : workers) EXPECT_TRUE(eventually([&] { return state_of(worker) != 'T'; }));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 128 + SIGTERM);
}

// Ctrl-C while a host does not answer.
TEST_F(Signal, AnInterruptEndsTheWaitForAHost) {
  const std::string deaf = lan().folder() + "/deaf";
  std::ofstream(deaf) << "#!/bin/sh\nexec sleep 1000\n";
  chmod(deaf.c_str(), 0755);
  Command job = lan().run({"--ssh", deaf, "--hosts", lan().ip(1), "true"});
  EXPECT_TRUE(eventually([&] { return lan().processes(0).size() >= 3; }));  // launcher, guardian, the deaf one
  job.signal(SIGINT);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  EXPECT_EQ(ended.errors, "paceline: interrupted before host " + lan().ip(1) + " answered\n");
}

}  // namespace
}  // namespace paceline
