// Collectives between hosts: ranks are threads, some of which share memory, and the others talk through UCX.
#include <gtest/gtest.h>

#include "paceline/collective/collective_test_support.hpp"
#include "paceline/collective/test_backends.hpp"
#include "paceline/fabric/ucx/run_hosts.hpp"

namespace paceline {

const std::vector<Backend>& backends() {
  using collective_test::Body;
  static const std::vector<Backend> all = {
      {"OneRankPerHost", [](int n, const Body& body) { ucx::run_hosts(n, 1, body); }},
      {"TwoRanksPerHost", [](int n, const Body& body) { ucx::run_hosts(n, 2, body); }}};
  return all;
}

namespace {

using namespace collective_test;

struct Shape {
  int ranks;
  int per_host;
};

class HostCollectives : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, HostCollectives,
                         testing::Values(Shape{2, 1}, Shape{3, 1}, Shape{4, 2}, Shape{5, 2}, Shape{7, 3}, Shape{8, 4}),
                         [](const auto& which) {
                           return std::to_string(which.param.ranks) + "RanksBy" + std::to_string(which.param.per_host);
                         });

TEST_P(HostCollectives, GiveWhatTheReferenceGives) {
  const auto cases = sample_of_cases(GetParam().ranks, 3, 4, false);
  ucx::run_hosts(GetParam().ranks, GetParam().per_host, [&](Endpoint& endpoint) { try_cases(endpoint, cases); });
}

// What a rank sends to other hosts is what the algorithm promises, and no more.
TEST(HostTraffic, HierarchicalCrossesWithTheLeast) {
  ucx::run_hosts(4, 2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(4));
    EXPECT_FALSE(world.shares_memory());
    std::vector<float> data(1 << 18, 1.0f);
    const double bytes = static_cast<double>(data.size() * sizeof(float));
    const auto sent = [&](Algorithm algorithm) {
      const std::uint64_t before = endpoint.counters().bytes_sent_to_other_hosts;
      world.allreduce(view(data), ReduceOp::average, {.algorithm = algorithm});
      return static_cast<double>(endpoint.counters().bytes_sent_to_other_hosts - before) / bytes;
    };
    // 2S(t-1)/t for t = 2 hosts, by two ranks each; the ring crosses once per host with 2S(n-1)/n.
    EXPECT_NEAR(sent(Algorithm::hierarchical), 0.5, 1e-3);
    EXPECT_NEAR(sent(Algorithm::ring), endpoint.rank() % 2 == 1 ? 1.5 : 0.0, 1e-3);
    EXPECT_EQ(data[17], 1.0f);
  });
}

}  // namespace
}  // namespace paceline
