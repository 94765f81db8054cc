#include <signal.h>

#include <fstream>

#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

class Lost : public HostsTest {};

std::string name_of(pid_t process) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/cmdline");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void expect_nothing_left(const Lan& lan) {
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(eventually([&] { return lan.processes(host).empty(); })) << host;
}

TEST_F(Lost, AHostThatCannotBeReachedIsNamedWithTheLastWordsOfSsh) {
  Command job = lan().run_script({{1, 1}, {8, 1}}, "exec sleep 1000");
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(ended.errors, "paceline: host " + lan().ip(8) + " cannot be reached: reach: connect to host " +
                              lan().ip(8) + " port 22: No route to host; ending the other workers\n");
  expect_nothing_left(lan());
}

TEST_F(Lost, AnAgentThatIsKilledTakesItsWorkersAlong) {
  Command job = lan().run_script({{1, 2}, {2, 1}}, "echo ready; sleep 1000 & wait");
  job.read_until("ready", 3);
  pid_t agent = 0;
  for (const pid_t process : lan().processes(2)) {
    if (contains(name_of(process), std::string("paceline\0host-agent", 19)) && agent == 0) agent = process;
  }
  ASSERT_NE(agent, 0);
  kill(agent, SIGKILL);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(contains(ended.errors, "paceline: the connection to host " + lan().ip(2) + " was lost: "))
      << ended.errors;
  EXPECT_TRUE(contains(ended.errors, "; ending the other workers")) << ended.errors;
  expect_nothing_left(lan());
}

// The stand-in for ssh dies; all that the agent sees is the end of its input.
TEST_F(Lost, AConnectionThatBreaksEndsTheJobOnBothSides) {
  Command job = lan().run_script({{1, 1}, {2, 1}}, "trap '' TERM; echo ready; sleep 1000 & wait", {"--grace", "0.2"});
  job.read_until("ready", 2);
  pid_t ssh = 0;
  for (const pid_t process : lan().processes(0)) {
    if (contains(name_of(process), lan().ssh() + '\0' + lan().ip(2)) && contains(name_of(process), "/bin/sh"))
      ssh = process;
  }
  ASSERT_NE(ssh, 0);
  kill(ssh, SIGKILL);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(contains(ended.errors, "paceline: the connection to host " + lan().ip(2) + " was lost: " + lan().ssh() +
                                         " was killed by signal 9 (Killed)"))
      << ended.errors;
  expect_nothing_left(lan());
}

}  // namespace
}  // namespace paceline
