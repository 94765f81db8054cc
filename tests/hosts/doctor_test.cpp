// `paceline doctor` on hosts that are sound, slow, gone or overloaded.
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

using Json = nlohmann::json;

class Doctor : public HostsTest {
 protected:
  static Command doctor(const std::vector<Lan::Share>& hosts, const std::vector<std::string>& options = {},
                        const std::vector<std::string>& environment = {}) {
    std::string list;
    for (const auto& [host, workers] : hosts)
      list += (list.empty() ? "" : ",") + lan().ip(host) + ":" + std::to_string(workers);
    std::vector<std::string> words = {PACELINE_PROGRAM, "doctor", "--ssh", lan().ssh(), "--hosts", list};
    words.insert(words.end(), options.begin(), options.end());
    return lan().start(words, environment);
  }
  static int on_host(int host, const std::string& command) {
    return lan().start({lan().ssh(), lan().ip(host), command}).wait().exit_code;
  }
};

std::vector<std::string> hosts_with(const Json& report, const std::string& id) {
  std::vector<std::string> hosts;
  for (const Json& finding : report.at("findings")) {
    if (finding.at("id") == id) hosts.insert(hosts.end(), finding.at("hosts").begin(), finding.at("hosts").end());
  }
  return hosts;
}

TEST_F(Doctor, ShowsEveryHostAndEveryLink) {
  const Ended ended = doctor({{0, 1}, {1, 2}, {2, 1}}, {"--json"}).wait();
  const Json report = Json::parse(ended.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << ended.output << ended.errors;
  ASSERT_EQ(report.at("hosts").size(), 3u);
  for (int host = 0; host < 3; ++host) {
    const Json& each = report.at("hosts")[static_cast<std::size_t>(host)];
    EXPECT_EQ(each.at("name"), lan().ip(host));
    EXPECT_EQ(each.at("device"), "eth0");
    EXPECT_GT(each.at("copy_one_gb_per_s"), 0);
    EXPECT_LT(std::abs(each.at("clock_ahead_s").get<double>()), 0.1);
  }
  EXPECT_EQ(report.at("hosts")[1].at("ranks"), Json({1, 2}));
  EXPECT_EQ(report.at("links").size(), 12u);
  for (const Json& link : report.at("links")) EXPECT_GT(link.at("gb_per_s"), 0) << link;
  EXPECT_EQ(report.at("choices").size(), 3u);
}

TEST_F(Doctor, FindsTheHostWhoseNetworkIsTenTimesSlower) {
  for (int host = 0; host < 3; ++host) {
    const std::string rate = host == 2 ? "50mbit" : "500mbit";
    if (on_host(host, "tc qdisc replace dev eth0 root tbf rate " + rate + " burst 64kb latency 50ms") != 0)
      GTEST_SKIP() << "links cannot be shaped here (that takes tc and tbf)";
  }
  const Ended ended = doctor({{0, 1}, {1, 1}, {2, 1}}).wait();
  for (int host = 0; host < 3; ++host) on_host(host, "tc qdisc del dev eth0 root");
  EXPECT_EQ(ended.exit_code, 1) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "  wrong     " + lan().ip(2) + ": Its network carries ")) << ended.output;
  EXPECT_FALSE(contains(ended.output, lan().ip(0) + ": Its network carries ")) << ended.output;
  EXPECT_FALSE(contains(ended.output, lan().ip(1) + ": Its network carries ")) << ended.output;
}

TEST_F(Doctor, FindsThreadsThatFight) {
  const Ended ended = doctor({{0, 1}, {1, 1}}, {"--json"}, {"OMP_NUM_THREADS=5000"}).wait();
  EXPECT_EQ(ended.exit_code, 1) << ended.errors;
  const Json report = Json::parse(ended.output, nullptr, false);
  ASSERT_TRUE(report.is_object()) << ended.output;
  EXPECT_EQ(hosts_with(report, "blas-threads"), (std::vector<std::string>{lan().ip(0), lan().ip(1)}));
}

TEST_F(Doctor, FindsMoreThreadsThanCores) {
  const Ended ended = doctor({{1, 1}, {2, 1}}, {"--threads", "5000"}).wait();
  EXPECT_EQ(ended.exit_code, 1) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "threads fight for them")) << ended.output;
}

TEST_F(Doctor, NamesAHostThatCannotBeReached) {
  const Ended ended = doctor({{1, 1}, {8, 1}}).wait();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(ended.output, "");
  EXPECT_TRUE(contains(ended.errors, "paceline: host " + lan().ip(8) + " cannot be reached")) << ended.errors;
}

TEST_F(Doctor, AnInterruptEndsIt) {
  Command job = doctor({{1, 2}, {2, 2}});
  ASSERT_TRUE(eventually([&] { return lan().processes(1).size() >= 4 && lan().processes(2).size() >= 4; }));
  job.signal(SIGINT);
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  EXPECT_EQ(ended.output, "");
  for (int host = 0; host < 3; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); })) << host;
}

TEST_F(Doctor, IsNoWorkerItself) {
  const Ended ended = doctor({{1, 1}}, {}, {"PMIX_RANK=0"}).wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.errors,
            "paceline: paceline doctor starts its own workers, but is itself a worker of a job (PMIX_RANK is set): "
            "start it by hand, with --hosts\n");
}

}  // namespace
}  // namespace paceline
