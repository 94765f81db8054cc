#include <gtest/gtest.h>

#include <thread>

#include "paceline/collective/communicator.hpp"
#include "paceline/collective/test_backends.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

using namespace std::chrono_literals;

// Virtual time has nothing that a thread could sleep on.
std::vector<Backend> backends_in_real_time() {
  std::vector<Backend> all = backends();
  std::erase_if(all, [](const Backend& backend) { return std::string(backend.name) == "Sim"; });
  return all;
}

class Lent : public testing::TestWithParam<Backend> {
 protected:
  static void run(int ranks, const collective_test::Body& body) { GetParam().run(ranks, body); }
};
INSTANTIATE_TEST_SUITE_P(On, Lent, testing::ValuesIn(backends_in_real_time()),
                         [](const auto& which) { return std::string(which.param.name); });

// The owner never moves anything itself.
TEST_P(Lent, ItMovesWhileTheOwnerDoesSomethingElse) {
  run(3, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3), {.time_waits = true});
    std::vector<float> values(1 << 20, static_cast<float>(endpoint.rank() + 1));
    Handle sum = world.start_allreduce(view(values), ReduceOp::sum, {.algorithm = Algorithm::ring});
    const TimePoint stop = endpoint.clock().after(20s);
    do {
      world.lend();
      std::this_thread::sleep_for(2ms);
    } while (sum.ended() == TimePoint{} && endpoint.clock().now() < stop);
    EXPECT_NE(sum.ended(), TimePoint{});
    sum.wait();
    EXPECT_EQ(values, std::vector<float>(values.size(), 6));
  });
}

TEST_P(Lent, OperationsOfAllCommunicatorsMayBeCalled) {
  run(4, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(4));
    Communicator other = Communicator::beside(endpoint, Group::world(4), "other");
    Random random(static_cast<std::uint64_t>(endpoint.rank()));
    for (int round = 0; round < 50; ++round) {
      std::vector<float> large(100'000, static_cast<float>(round)), small(10, 1);
      Handle sum = world.start_allreduce(view(large));
      world.lend();
      if (random.below(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(300)));
      other.allreduce(view(small));
      EXPECT_FALSE(world.lent());
      if (random.below(2) == 0) world.lend();
      if (random.below(4) == 0) world.recall();
      other.barrier();
      world.lend();
      sum.wait();
      ASSERT_EQ(large, std::vector<float>(large.size(), static_cast<float>(4 * round)));
      ASSERT_EQ(small, std::vector<float>(10, 4));
    }
  });
}

TEST_P(Lent, AFailureReachesTheOwner) {
  run(2, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2));
    std::vector<float> values(100'000);
    if (endpoint.rank() == 1) {
      EXPECT_THROW(world.give_up("step 3: NaN", 1), Error);
      return;
    }
    try {
      Handle sum = world.start_allreduce(view(values));
      world.lend();
      std::this_thread::sleep_for(20ms);
      sum.wait();
      ADD_FAILURE() << "a sum with a rank that has given up";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsound) << error.what();
    }
  });
}

TEST_P(Lent, WhatIsUnderWayCanBeDropped) {
  run(2, [](Endpoint& endpoint) {
    std::vector<float> values(100'000);
    Communicator world(endpoint, Group::world(2));
    try {
      Handle sum = world.start_allreduce(view(values));
      if (endpoint.rank() == 1) std::this_thread::sleep_for(5ms);
      world.lend();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::cancelled) << error.what();  // the other was quicker
    }
  });
}

}  // namespace
}  // namespace paceline
