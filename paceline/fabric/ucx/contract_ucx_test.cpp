#include <gtest/gtest.h>

#include "paceline/fabric/contract_test_support.hpp"
#include "paceline/fabric/ucx/run_hosts.hpp"

namespace paceline {
namespace {

struct OneRankPerHost {
  static void run(int n, const std::function<void(Endpoint&)>& body) { ucx::run_hosts(n, 1, body); }
};

struct TwoRanksPerHost {
  static void run(int n, const std::function<void(Endpoint&)>& body) { ucx::run_hosts(n, 2, body); }
};

struct ShapedLinks {
  static void run(int n, const std::function<void(Endpoint&)>& body) {
    ucx::run_hosts({.size = n, .ranks_per_host = 2, .link = parse_link("1GB/s,200us")}, body);
  }
};

using Backends = testing::Types<OneRankPerHost, TwoRanksPerHost, ShapedLinks>;
INSTANTIATE_TYPED_TEST_SUITE_P(Hosts, Contract, Backends);

}  // namespace
}  // namespace paceline
