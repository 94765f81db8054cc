// What a job's messages do on the network, seen from outside: on the counters of the devices and on the clock.
#include <algorithm>

#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

class Network : public HostsTest {
 protected:
  // What the devices of hosts 1 and 2, with two ranks each, have sent in one operation, ascending.
  static std::vector<long> sent(const std::string& operation, long bytes) {
    const Ended ended = lan()
                            .run({"--hosts", lan().ip(1) + ":2," + lan().ip(2) + ":2", "--no-prefix",
                                  PACELINE_HOSTS_WORKER, "bytes", operation, std::to_string(bytes)})
                            .wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    std::vector<long> counts;
    for (const auto count : numbers_after(ended.output, "sent ")) counts.push_back(static_cast<long>(count));
    std::sort(counts.begin(), counts.end());
    counts.resize(2);
    return counts;
  }
  static constexpr long kBytes = 8 << 20;
  // Headers of frames, and of packets, which a busy machine sends one by one (66 bytes of 1,514); acknowledgements.
  static constexpr double kOverhead = 1.1;
  static constexpr long kLittle = 300'000;
};

// 2 S (h - 1) / h bytes out of each of h hosts, which is the least for any algorithm, however many ranks each has.
TEST_F(Network, AnAllreduceCrossesItWithTheLeastBytes) {
  for (const long bytes : sent("allreduce", kBytes)) {
    EXPECT_GE(bytes, kBytes);
    EXPECT_LE(static_cast<double>(bytes), kBytes * kOverhead);
  }
}

TEST_F(Network, ABroadcastCrossesItOnce) {
  const auto bytes = sent("broadcast", kBytes);
  EXPECT_LE(bytes[0], kLittle);
  EXPECT_GE(bytes[1], kBytes);
  EXPECT_LE(static_cast<double>(bytes[1]), kBytes * kOverhead);
}

TEST_F(Network, AnAllgatherSendsAHostsBlocksOnce) {
  for (const long bytes : sent("allgather", kBytes)) {
    EXPECT_GE(bytes, 2 * kBytes);
    EXPECT_LE(static_cast<double>(bytes), 2 * kBytes * kOverhead);
  }
}

// A limit to one side only: a busy machine may be late.
class Link : public testing::Test {
 protected:
  static Ended run(std::vector<std::string> options, const std::vector<std::string>& environment = {}) {
    options.insert(options.end(), {"--no-prefix", PACELINE_HOSTS_WORKER, "link"});
    return paceline_run(options, environment).wait();
  }
};

TEST_F(Link, OnOneMachineEveryWorkerIsAHostAndMessagesAreLate) {
  const Ended ended = run({"-n", "2", "--link", "100Mbit/s,20ms"});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "host 1 of rank 1, network 'ucx over lo, shaped to 100Mbit/s,20ms'"))
      << ended.output;
  EXPECT_GE(numbers_after(ended.output, "there and back ").at(0), 40);
}

TEST_F(Link, WorkersOfOneHostStayTogetherIfSo) {
  const Ended ended = run({"-n", "4", "--link", "20ms", "--split-host", "2"});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  for (const char* line : {"host 0 of rank 1", "host 1 of rank 2", "host 1 of rank 3"})
    EXPECT_TRUE(contains(ended.output, line)) << ended.output;
}

TEST_F(Link, HostsWithoutALinkAreAsQuickAsTheyAre) {
  const Ended ended = run({"-n", "2", "--split-host", "1"});
  ASSERT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "host 1 of rank 1, network 'ucx over lo'")) << ended.output;
}

TEST_F(Link, WhatIsNoneIsRefusedBeforeWorkersStart) {
  const Ended ended = run({"-n", "2", "--link", "fast"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  EXPECT_TRUE(contains(ended.errors, "a link cannot be 'fast'")) << ended.errors;
}

TEST_F(Link, AHostThatCannotBeSplitIsRefused) {
  for (const char* parts : {"2", "3"}) {
    const Ended ended = run({"-n", "2", "--link", "20ms", "--split-host", parts});
    EXPECT_EQ(ended.exit_code, 2);
    EXPECT_EQ(ended.output, "");
    EXPECT_TRUE(contains(ended.errors, "splits nothing: no host has more than 2 workers")) << ended.errors;
  }
}

TEST_F(Link, WorkersThatDisagreeAreRefused) {
  const Ended ended = run_script({"-n", "2"}, std::string("PACELINE_LINK=$((PACELINE_RANK + 1))ms exec ") +
                                                  PACELINE_HOSTS_WORKER + " link")
                          .wait();
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(contains(ended.errors, "all workers of a job imitate one network")) << ended.errors;
}

}  // namespace
}  // namespace paceline
