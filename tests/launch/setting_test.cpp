#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "paceline/launch/cores.hpp"
#include "tests/launch/command.hpp"

namespace paceline {
namespace {

const char kShowThreads[] = "echo $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $MKL_NUM_THREADS";
const std::vector<std::string> kUnset = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};

Cores cores_in(const std::string& output, const std::string& prefix) {
  const std::size_t at = output.find(prefix);
  return parse_core_list(output.substr(at + prefix.size(), output.find('\n', at) - at - prefix.size()));
}

TEST(Threads, AreCoresOverWorkersByDefault) {
  const int expected = default_threads(allowed_cores().size(), core_quota(), 2);
  const std::string number = std::to_string(expected);
  const Ended ended = run_script({"-n", "2"}, kShowThreads, kUnset).wait();
  EXPECT_EQ(sorted_lines(ended.output).at(1), "[1] " + number + " " + number + " " + number);
}

TEST(Threads, WhatTheUserSetStaysUnlessTheCommandLineSaysOtherwise) {
  const std::vector<std::string> set = {"OMP_NUM_THREADS=9", "OPENBLAS_NUM_THREADS=8", "MKL_NUM_THREADS=7"};
  EXPECT_EQ(run_script({"-n", "1"}, kShowThreads, set).wait().output, "[0] 9 8 7\n");
  EXPECT_EQ(run_script({"-n", "1", "--threads", "3"}, kShowThreads, set).wait().output, "[0] 3 3 3\n");
}

TEST(Bind, EachWorkerGetsItsOwnCores) {
  const Cores allowed = allowed_cores();
  if (allowed.size() < 2) GTEST_SKIP() << "needs two cores";
  const Ended ended =
      run_script({"-n", "2", "--threads", "1", "--bind", "core"}, "grep Cpus_allowed_list /proc/self/status | cut -f 2")
          .wait();
  EXPECT_EQ(cores_in(ended.output, "[0] "), Cores{allowed[0]});
  EXPECT_EQ(cores_in(ended.output, "[1] "), Cores{allowed[1]});
  EXPECT_EQ(ended.errors, "");
}

TEST(Bind, MoreWorkersThanCoresIsSaidAndDone) {
  const std::string workers = std::to_string(allowed_cores().size() + 1);
  const Ended ended = run_script({"-n", workers, "--bind", "core"}, "exit 0").wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_TRUE(contains(ended.errors, "bound to the same core")) << ended.errors;
}

TEST(Bind, ACpusetIsHonoured) {
  const std::string last = std::to_string(allowed_cores().back());
  const Ended ended = Command({"/usr/bin/taskset", "-c", last, PACELINE_PROGRAM, "run", "-n", "1", "--bind", "core",
                               "sh", "-c", std::string(kShowThreads) + "; grep Cpus_allowed_list /proc/self/status"},
                              kUnset)
                          .wait();
  EXPECT_EQ(sorted_lines(ended.output), (std::vector<std::string>{"[0] 1 1 1", "[0] Cpus_allowed_list:\t" + last}));
}

TEST(Bind, AWordItDoesNotKnowIsRefused) { EXPECT_NE(run_script({"--bind", "socket"}, "exit 0").wait().exit_code, 0); }

TEST(Secret, IsFreshForEachJobAndNeverOnACommandLine) {
  Command job = run_script({"-n", "2", "--no-prefix"}, "echo $PACELINE_SECRET; exec sleep 1000");
  const auto secrets = sorted_lines(job.read_until("\n", 2));
  ASSERT_EQ(secrets.size(), 2u);
  EXPECT_EQ(secrets[0], secrets[1]);
  EXPECT_EQ(secrets[0].size(), 64u);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stream(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    EXPECT_FALSE(contains(line, secrets[0])) << entry.path();
  }
  Command another = run_script({"-n", "1", "--no-prefix"}, "echo $PACELINE_SECRET");
  EXPECT_FALSE(contains(another.wait().output, secrets[0]));
}

}  // namespace
}  // namespace paceline
