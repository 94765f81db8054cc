#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tests/launch/command.hpp"

namespace paceline {
namespace {

using Lines = std::vector<std::string>;

TEST(Output, EachLineBeginsWithItsRank) {
  const Ended ended = run_script({"-n", "3"}, "echo out $PACELINE_RANK; echo err $PACELINE_RANK >&2").wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(sorted_lines(ended.output), (Lines{"[0] out 0", "[1] out 1", "[2] out 2"}));
  EXPECT_EQ(sorted_lines(ended.errors), (Lines{"[0] err 0", "[1] err 1", "[2] err 2"}));
}

TEST(Output, ThePrefixCanBeLeftOut) {
  EXPECT_EQ(run_script({"-n", "2", "--no-prefix"}, "echo same").wait().output, "same\nsame\n");
}

TEST(Output, TheLastLineIsShownAlsoWithoutItsEnd) {
  EXPECT_EQ(run_script({"-n", "1"}, "printf 'a\\nb'").wait().output, "[0] a\n[0] b\n");
}

TEST(Output, LinesOfManyWorkersAreNeverTorn) {
  // Both streams into one pipe, lines written in two pieces.
  const std::string script =
      "i=0; while [ $i -lt 500 ]; do printf 'first '; echo half; echo 'other stream' >&2; i=$((i+1)); done";
  const Ended ended =
      Command({"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh", PACELINE_PROGRAM, "run", "-n", "4", "sh", "-c", script})
          .wait();
  const Lines lines = sorted_lines(ended.output);
  EXPECT_EQ(lines.size(), 4000u);
  for (const std::string& line : lines) {
    const std::string text = line.substr(std::min<std::size_t>(line.size(), 4));
    ASSERT_TRUE(line.starts_with("[") && (text == "first half" || text == "other stream")) << line;
  }
}

TEST(Output, NothingIsLostWhenMuchIsWrittenAtTheEnd) {
  const Ended ended = run_script({"-n", "2"}, "seq 1 20000").wait();
  EXPECT_EQ(sorted_lines(ended.output).size(), 40000u);
}

TEST(Output, AReaderWhoLeavesEndsTheJob) {
  Command job = run_script({"-n", "2"}, "while echo tick; do :; done");
  job.read_until("tick");
  job.close_output();
  EXPECT_EQ(job.wait().exit_code, 128 + SIGPIPE);
}

TEST(Output, AReaderWhoIsSlowDoesNotKeepSignalsFromWorkers) {
  Command job = run_script({"-n", "2"}, "trap 'echo stopped >&2; exit 0' TERM; while :; do echo tick; done");
  job.read_until("[0] tick");
  job.read_until("[1] tick");  // and then no more: the pipe fills up
  job.signal(SIGTERM);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_TRUE(contains(ended.errors, "[0] stopped"));
  EXPECT_TRUE(contains(ended.errors, "[1] stopped"));
}

TEST(Output, AReaderWhoNeverReadsCannotKeepTheLauncher) {
  Command job = run_script({"-n", "1"}, "echo pid $$; exec seq 1 100000");
  const pid_t worker = numbers_after(job.read_until("\n"), "pid ").at(0);
  ASSERT_TRUE(eventually([&] { return state_of(worker) == '-'; }));
  job.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return gone(job.pid()); }));
  EXPECT_EQ(job.wait().exit_code, 128 + SIGTERM);
}

TEST(Input, OnlyRankZeroReadsTheLaunchersInput) {
  Command job = run_script({"-n", "2"}, "cat; echo end");
  job.write("hello\n");
  EXPECT_EQ(sorted_lines(job.wait().output), (Lines{"[0] end", "[0] hello", "[1] end"}));
}

}  // namespace
}  // namespace paceline
