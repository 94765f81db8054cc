#include "paceline/launch/host_protocol.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

namespace paceline {
namespace {

// Without its end, which must be the only one.
std::string one_line(const std::string& text) {
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_TRUE(text.ends_with('\n'));
  return text.substr(0, text.size() - 1);
}

const HostJob kJob = {.command = {"./train", "a b", "line\nline", "\xff\x80\xc3\xa9"},
                      .environment = {"UCX_TLS=tcp", "ODD=\xfe\x01"},
                      .host = "b",
                      .folder = "/home/m\xc3\xbcller",
                      .first_rank = 4,
                      .workers = 2,
                      .size = 8,
                      .store = "10.0.0.1:7000",
                      .secret = "s3",
                      .threads = 3,
                      .bind = Bind::core,
                      .grace = std::chrono::milliseconds(1500),
                      .prefix = false,
                      .follower_code = {}};

TEST(HostProtocol, AJobArrivesAsItWasSent) {
  const HostJob job = parse_job(one_line(job_line(kJob)));
  EXPECT_EQ(job.command, kJob.command);
  EXPECT_EQ(job.environment, kJob.environment);
  EXPECT_EQ(job.folder, kJob.folder);
  EXPECT_EQ(job.host, "b");
  EXPECT_EQ(job.first_rank, 4);
  EXPECT_EQ(job.workers, 2);
  EXPECT_EQ(job.size, 8);
  EXPECT_EQ(job.store, "10.0.0.1:7000");
  EXPECT_EQ(job.secret, "s3");
  EXPECT_EQ(job.threads, 3);
  EXPECT_EQ(job.bind, Bind::core);
  EXPECT_EQ(job.grace, std::chrono::milliseconds(1500));
  EXPECT_FALSE(job.prefix);
  EXPECT_EQ(job.follower_code, std::nullopt);
}

TEST(HostProtocol, EveryByteOfAnArgumentArrives) {
  std::string bytes;
  for (int byte = 1; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  HostJob job = kJob;
  job.command = {bytes};
  EXPECT_EQ(parse_job(one_line(job_line(job))).command.at(0), bytes);
}

TEST(HostProtocol, AJobThatMakesNoSenseIsRefused) {
  for (const std::string line : {"", "{}", "[]", "signal 9", "{\"command\": 3}"}) {
    EXPECT_THROW(parse_job(line), Error) << line;
  }
  HostJob job = kJob;
  job.first_rank = 7;
  EXPECT_THROW(parse_job(one_line(job_line(job))), Error);
  job = kJob;
  job.command.clear();
  EXPECT_THROW(parse_job(one_line(job_line(job))), Error);
}

TEST(HostProtocol, OnlyAGreetingGreets) {
  EXPECT_EQ(greeting_version(one_line(greeting_line())), own_version());
  EXPECT_EQ(greeting_version("paceline host-agent 9.9"), "9.9");
  EXPECT_EQ(greeting_version("Welcome to b"), std::nullopt);
  EXPECT_EQ(greeting_version("paceline host-agent "), std::nullopt);
}

TEST(HostProtocol, SignalsArriveAndNothingElseDoes) {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGKILL, SIGCONT}) {
    EXPECT_EQ(parse_signal(one_line(signal_line(number))), number);
  }
  for (const std::string line : {"", "signal", "signal ", "signal 0", "signal -9", "signal 11", "signal 9 ", "9"}) {
    EXPECT_EQ(parse_signal(line), std::nullopt) << line;
  }
}

TEST(HostProtocol, ReportsArriveAsTheyWereSent) {
  const Failure failure = {
      .sentence = "rank 3 on b (pid 7) died", .exit_code = 139, .is_cause = true, .others_remain = false};
  const std::string line = one_line(report_line({.failure = failure}));
  ASSERT_EQ(line.front(), kReportTag);
  const Report report = parse_report(line.substr(1));
  ASSERT_TRUE(report.failure.has_value());
  EXPECT_EQ(report.failure->sentence, failure.sentence);
  EXPECT_EQ(report.failure->exit_code, 139);
  EXPECT_TRUE(report.failure->is_cause);
  EXPECT_FALSE(report.failure->others_remain);
  EXPECT_FALSE(report.ended);
  EXPECT_TRUE(parse_report(one_line(report_line({.failure = {}, .ended = true})).substr(1)).ended);
}

TEST(HostProtocol, AMalformedReportIsRefused) {
  for (const std::string line : {"", "[]", "nonsense", "{\"failure\": 1}", "{\"ended\": \"x\"}"}) {
    EXPECT_THROW(parse_report(line), Error) << line;
  }
}

TEST(HostProtocol, ServersArriveAlsoOnAHostWithoutWorkers) {
  HostJob job = kJob;
  job.workers = 0;
  job.first_rank = 8;
  job.servers = {.command = {"paceline", "train-server", "when=bsp\xff"}, .own = {1, 3}, .all = 4};
  const HostJob read = parse_job(one_line(job_line(job)));
  EXPECT_EQ(read.workers, 0);
  EXPECT_EQ(read.servers.command, job.servers.command);
  EXPECT_EQ(read.servers.own, (std::vector<int>{1, 3}));
  EXPECT_EQ(read.servers.all, 4);
}

TEST(HostProtocol, ServersThatMakeNoSenseAreRefused) {
  const ServerShare good = {.command = {"paceline"}, .own = {0}, .all = 1};
  for (const ServerShare& bad :
       {ServerShare{.command = {}, .own = {0}, .all = 1}, ServerShare{.command = {"paceline"}, .own = {1}, .all = 1},
        ServerShare{.command = {"paceline"}, .own = {-1}, .all = 1},
        ServerShare{.command = {"paceline"}, .own = {}, .all = 1}}) {
    HostJob job = kJob;
    job.workers = 0;
    job.servers = good;
    EXPECT_NO_THROW(parse_job(one_line(job_line(job))));
    job.servers = bad;
    EXPECT_THROW(parse_job(one_line(job_line(job))), Error);
  }
}

}  // namespace
}  // namespace paceline
