#include "paceline/collective/communicator.hpp"

#include <gtest/gtest.h>

#include "paceline/fabric/run_ranks.hpp"

namespace paceline {
namespace {
TEST(Communicator, Smoke) {
  for (int n = 1; n < 6; ++n) {
    run_ranks(n, [&](Endpoint& endpoint) {
      Communicator world(endpoint, Group::world(n));
      std::vector<float> x(1000, static_cast<float>(endpoint.rank() + 1));
      world.allreduce(view(x));
      for (float v : x) ASSERT_EQ(v, n * (n + 1) / 2);
    });
  }
}
}  // namespace
}  // namespace paceline
