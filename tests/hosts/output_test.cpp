#include <signal.h>

#include <algorithm>
#include <fstream>

#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

using Lines = std::vector<std::string>;
class Output : public HostsTest {};
class Environment : public HostsTest {};

TEST_F(Output, RanksFollowTheOrderOfTheHosts) {
  const Ended ended =
      lan().run_script({{1, 2}, {2, 1}}, "echo $PACELINE_RANK of $PACELINE_SIZE on $ON_HOST; echo err >&2").wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] 0 of 3 on 1", "[1] 1 of 3 on 1", "[2] 2 of 3 on 2"}));
  EXPECT_EQ(sorted_lines(ended.errors), (Lines{"[0] err", "[1] err", "[2] err"}));
}

TEST_F(Output, WorkersAreWhereTheyShouldBe) {
  const Ended ended = lan().run_script({{1, 1}, {2, 1}}, "readlink /proc/self/ns/net").wait();
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] " + lan().namespace_of(1), "[1] " + lan().namespace_of(2)}));
}

TEST_F(Output, LocalhostIsHereAndNeedsNoSsh) {
  const Ended ended = lan()
                          .run({"--hosts", "localhost:1," + lan().ip(1) + ":1", "sh", "-c",
                                "echo $PACELINE_RANK $ON_HOST; readlink /proc/self/ns/net"})
                          .wait();
  EXPECT_EQ(sorted_lines(ended.output),
            (Lines{"[0] 0", "[0] " + lan().namespace_of(0), "[1] 1 1", "[1] " + lan().namespace_of(1)}));
}

TEST_F(Output, ThePrefixCanBeLeftOut) {
  const Ended ended = lan().run_script({{1, 1}, {2, 1}}, "echo same", {"--no-prefix"}).wait();
  EXPECT_EQ(ended.output, "same\nsame\n");
}

TEST_F(Output, LinesOfSeveralHostsAreNeverTornAndNoneIsLost) {
  const std::string script =
      "i=0; while [ $i -lt 300 ]; do printf 'first '; echo half; echo 'other stream' >&2; i=$((i+1)); done";
  const Ended ended = lan().run_script({{1, 2}, {2, 2}}, script).wait();
  const Lines lines = sorted_lines(ended.output);
  EXPECT_EQ(lines.size(), 1200u);
  for (const std::string& line : lines) ASSERT_EQ(line.substr(std::min<std::size_t>(line.size(), 4)), "first half");
  EXPECT_EQ(sorted_lines(ended.errors).size(), 1200u);
}

TEST_F(Output, ALongLineAndOddBytesComeThrough) {
  const Ended ended =
      lan().run_script({{1, 1}}, "head -c 65536 /dev/zero | tr '\\0' x; echo; printf 'a\\377\\001b'").wait();
  EXPECT_EQ(ended.output, "[0] " + std::string(65536, 'x') + "\n[0] \n[0] a\377\001b\n");
}

TEST_F(Output, MuchAtTheEndIsNotLost) {
  const Ended ended = lan().run_script({{1, 1}, {2, 1}}, "seq 1 20000").wait();
  EXPECT_EQ(sorted_lines(ended.output).size(), 40000u);
}

TEST_F(Output, AHostFileDoesTheSame) {
  std::ofstream(lan().folder() + "/hosts") << "# two\n" << lan().ip(1) << " slots=2\n" << lan().ip(2) << "\n";
  const Ended ended = lan().run({"--hostfile", "hosts", "sh", "-c", "echo $ON_HOST"}).wait();
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] 1", "[1] 1", "[2] 2"})) << ended.errors;
}

TEST_F(Output, ANumberOfWorkersFillsTheHosts) {
  const Ended ended =
      lan().run({"-n", "3", "--hosts", lan().ip(1) + "," + lan().ip(2), "sh", "-c", "echo $ON_HOST"}).wait();
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] 1", "[1] 1", "[2] 2"})) << ended.errors;
}

TEST_F(Environment, OursIsPassedOnAndTheRestIsTheHosts) {
  const Ended ended =
      lan()
          .run_script({{1, 1}}, "echo $PACELINE_DEVICE $UCX_TLS $OMP_NUM_THREADS $MINE $GIVEN none=$OTHER; echo $HOME",
                      {"--env", "MINE", "--env", "GIVEN=a  b=c"},
                      {"PACELINE_DEVICE=eth7", "UCX_TLS=tcp", "OMP_NUM_THREADS=3", "MINE=mine", "OTHER=other"})
          .wait();
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] /", "[0] eth7 tcp 3 mine a b=c none="})) << ended.errors;
}

TEST_F(Environment, FlagsOfTheNetworkBecomeVariables) {
  const Ended ended = lan()
                          .run_script({{1, 1}}, "echo $PACELINE_PORTS $PACELINE_DEVICE $PACELINE_SILENCE",
                                      {"--ports", "7000-7100", "--device", "eth0", "--silence", "2.5"})
                          .wait();
  EXPECT_EQ(ended.output, "[0] 7000-7100 eth0 2.5\n") << ended.errors;
}

TEST_F(Environment, TheStoreIsAtTheAddressThatTheHostReaches) {
  const std::string ask = "exec 9<>/dev/tcp/${PACELINE_STORE%:*}/${PACELINE_STORE#*:} && echo $PACELINE_STORE";
  const Ended ended =
      lan().run({"--ports", "7000-7003", "--hosts", lan().ip(1) + ",localhost", "bash", "-c", ask}).wait();
  const std::string store = lan().ip(0) + ":7000";
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] " + store, "[1] " + store})) << ended.errors;
}

TEST_F(Environment, TheAddressCanBeSet) {
  const Ended ended = lan().run_script({{1, 1}}, "echo ${PACELINE_STORE%:*}", {"--address", "10.9.9.9"}).wait();
  EXPECT_EQ(ended.output, "[0] 10.9.9.9\n");
}

TEST_F(Environment, WorkersWorkInTheLaunchersFolder) {
  EXPECT_EQ(lan().run_script({{1, 1}}, "pwd").wait().output, "[0] " + lan().folder() + "\n");
}

TEST_F(Environment, ThreadsAreSharedOutOnEachHost) {
  const Ended ended = lan().run_script({{1, 2}, {2, 1}}, "echo $OPENBLAS_NUM_THREADS", {"--threads", "5"}).wait();
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] 5", "[1] 5", "[2] 5"}));
}

// What `ps` shows on the hosts, and on this one.
TEST_F(Environment, TheSecretIsOnNoCommandLine) {
  Command job = lan().run({"--no-prefix", "--hosts", lan().ip(1) + "," + lan().ip(2) + ",localhost", "sh", "-c",
                           "echo $PACELINE_SECRET; exec sleep 1000"});
  const Lines secrets = sorted_lines(job.read_until("\n", 3));
  ASSERT_EQ(secrets.size(), 3u);
  EXPECT_EQ(secrets.front(), secrets.back());
  ASSERT_EQ(secrets.front().size(), 64u);
  int seen = 0;
  for (int host = 0; host < 3; ++host) {
    for (const pid_t process : lan().processes(host)) {
      std::ifstream stream("/proc/" + std::to_string(process) + "/cmdline");
      const std::string line((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
      EXPECT_FALSE(contains(line, secrets.front())) << line;
      ++seen;
    }
  }
  EXPECT_GE(seen, 6);  // the launcher, three agents, three workers at least
  job.signal(SIGINT);
  job.wait();
}

}  // namespace
}  // namespace paceline
