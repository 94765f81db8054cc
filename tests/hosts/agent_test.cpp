// The host agent alone, spoken to as a launcher does. Needs no network.
#include <gtest/gtest.h>
#include <signal.h>

#include "paceline/launch/host_protocol.hpp"
#include "tests/launch/command.hpp"

namespace paceline {
namespace {

HostJob job_of(const std::string& script) {
  return {.command = {"sh", "-c", script},
          .environment = {},
          .host = "b",
          .folder = "/",
          .first_rank = 4,
          .workers = 2,
          .size = 8,
          .store = "10.0.0.1:7000",
          .secret = "secret",
          .threads = {},
          .grace = std::chrono::seconds(1000),
          .follower_code = {}};
}

Command agent() { return Command({PACELINE_PROGRAM, "host-agent"}); }

TEST(Agent, GreetsAndEndsWithItsInput) {
  const Ended ended = agent().wait();
  EXPECT_EQ(ended.output, greeting_line());
  EXPECT_EQ(ended.exit_code, 1);
}

TEST(Agent, TagsWhatItsWorkersSay) {
  Command host = agent();
  host.write(job_line(job_of("echo out $PACELINE_RANK of $PACELINE_SIZE at $PACELINE_STORE; echo err >&2")));
  host.read_until("ended");
  const Ended ended = host.wait();
  EXPECT_EQ(sorted_lines(ended.output),
            (std::vector<std::string>{"e[4] err", "e[5] err", "o[4] out 4 of 8 at 10.0.0.1:7000",
                                      "o[5] out 5 of 8 at 10.0.0.1:7000",
                                      greeting_line().substr(0, greeting_line().size() - 1), "r{\"ended\":true}"}));
  EXPECT_EQ(ended.exit_code, 0);
}

TEST(Agent, TheEndOfItsInputKillsItsWorkersAtOnce) {
  Command host = agent();
  host.write(job_line(job_of("trap '' TERM; setsid sleep 1000 & echo pid $!; echo pid $$; wait")));
  const auto processes = numbers_after(host.read_until("pid", 4) + host.read_until("\n", 5), "pid ");
  EXPECT_GE(processes.size(), 4u);
  host.close_input();
  for (const pid_t process : processes) EXPECT_TRUE(eventually([&] { return gone(process); })) << process;
  host.wait();
}

TEST(Agent, SignalsThatComeAlongWithTheJobAreNotLost) {
  Command host = agent();
  host.write(job_line(job_of("exec sleep 1000")) + signal_line(SIGUSR1));
  host.read_until("ended");
  EXPECT_TRUE(contains(host.wait().output, "was killed by signal 10"));
}

TEST(Agent, AnOrderItDoesNotUnderstandEndsEverything) {
  Command host = agent();
  host.write(job_line(job_of("echo pid $$; exec sleep 1000")));
  const auto processes = numbers_after(host.read_until("pid", 2) + host.read_until("\n", 3), "pid ");
  host.write("make coffee\n");
  for (const pid_t process : processes) EXPECT_TRUE(eventually([&] { return gone(process); })) << process;
}

TEST(Agent, AFolderThatIsNotThereIsReported) {
  HostJob job = job_of("exit 0");
  job.folder = "/no/such/folder";
  Command host = agent();
  host.write(job_line(job));
  host.read_until("ended");
  EXPECT_TRUE(contains(host.wait().output, "host b cannot work in the folder /no/such/folder: No such file"));
}

TEST(Agent, NonsenseInPlaceOfAJobIsReported) {
  Command host = agent();
  host.write("{}\n");
  host.read_until("ended");
  EXPECT_TRUE(contains(host.wait().output, "the job that the launcher sent is malformed"));
}

}  // namespace
}  // namespace paceline
