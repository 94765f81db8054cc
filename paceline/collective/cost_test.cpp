#include "paceline/collective/cost.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "paceline/collective/communicator.hpp"
#include "paceline/collective/schedules.hpp"
#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

using Generator = Schedule (*)(int n, int rank);
constexpr Generator kAllreduce[] = {
    schedules::naive, schedules::ring, schedules::butterfly, schedules::halving_doubling,
    schedules::tree,  schedules::star, schedules::ordered,   schedules::shm};

double price_of(Generator generator, int n, double bytes, int cores = 64) {
  return price({}, {.ranks = n, .cores = cores}, bytes, [=](int rank) { return generator(n, rank); });
}

// At powers of two, which is where the planner asks. In between, a vector that just gets its second segment can be
// cheaper.
TEST(Price, GrowsWithTheBytes) {
  for (const Generator generator : kAllreduce) {
    for (const int n : {2, 3, 4, 8, 16}) {
      for (int power = 0; power < 28; ++power) {
        EXPECT_LE(price_of(generator, n, std::ldexp(1, power)), price_of(generator, n, std::ldexp(1, power + 1)))
            << n << " ranks, 2^" << power;
      }
    }
  }
}

// From one power of two to the next: halving-doubling among 5 has two rounds that it does not have among 8.
TEST(Price, GrowsWithTheRanks) {
  for (const Generator generator : kAllreduce) {
    for (const double bytes : {8.0, 65536.0, 16.0 * (1 << 20)}) {
      for (int n = 1; n < 64; n *= 2)
        EXPECT_LE(price_of(generator, n, bytes), price_of(generator, 2 * n, bytes)) << n << " ranks, " << bytes;
    }
  }
}

TEST(Price, OfNothingToDoIsNothing) {
  EXPECT_EQ(price_of(schedules::tree, 1, 1 << 20), 0.03e-9 * (1 << 20));  // the finishing pass
  EXPECT_EQ(price_of(schedules::dissemination_barrier, 1, 0), 0);
}

TEST(Price, RingBeatsButterflyForLongVectorsAndLosesForShortOnes) {
  for (const int n : {4, 8, 16, 32}) {
    EXPECT_LT(price_of(schedules::ring, n, 64 << 20), price_of(schedules::butterfly, n, 64 << 20)) << n;
    EXPECT_GT(price_of(schedules::ring, n, 8), price_of(schedules::butterfly, n, 8)) << n;
  }
}

// By hand: a star among two is one message there and one back, and one addition and one finishing pass of S bytes.
TEST(Price, OfAStarAmongTwoIsWhatItIsByHand) {
  const CostModel m{.alpha = 1, .beta = 10, .gamma = 100, .direct = 0, .switch_cost = 0};
  const double bytes = 8;
  const double cost = price(m, {.ranks = 2, .cores = 2}, bytes, [](int rank) { return schedules::star(2, rank); });
  EXPECT_DOUBLE_EQ(cost, 2 * (1 + 10 * bytes) + 2 * 100 * bytes);
}

TEST(Price, IsHigherWhenRanksShareCores) {
  for (const Generator generator : kAllreduce)
    EXPECT_GT(price_of(generator, 4, 65536, 2), price_of(generator, 4, 65536, 4));
}

// The root of a broadcast through mapped memory only meets; it is priced in one piece like the others all the same.
TEST(Price, OfALongBroadcastThroughMappedMemoryIsFinite) {
  const double cost =
      price({}, {.ranks = 4, .cores = 4}, 64 << 20, [](int rank) { return schedules::shm_broadcast(4, rank, 0); });
  EXPECT_GT(cost, 0);
  EXPECT_LT(cost, 1);
}

TEST(CostModel, IsItselfAgainAfterAWayThroughText) {
  const CostModel before{
      .alpha = 1.0 / 3e6, .beta = 2.0 / 3e10, .gamma = 1e-13, .direct = 0, .switch_cost = 7.123456789e-6};
  const CostModel after = CostModel::parse(before.text());
  EXPECT_EQ(after.alpha, before.alpha);
  EXPECT_EQ(after.beta, before.beta);
  EXPECT_EQ(after.gamma, before.gamma);
  EXPECT_EQ(after.direct, before.direct);
  EXPECT_EQ(after.switch_cost, before.switch_cost);
  EXPECT_EQ(CostModel{}.text().substr(0, 22), "alpha=4e-07,beta=9e-11");
}

TEST(CostModel, RefusesOtherText) {
  const std::string good = CostModel{}.text();
  for (const std::string& bad :
       {std::string(), std::string("fast"), good + "x", good + ",more=1", " " + good, good.substr(0, good.size() - 10),
        std::string("alpha=-1,beta=1,gamma=1,direct=1,switch=1,net_alpha=1,net_beta=1"),
        std::string("alpha=nan,beta=1,gamma=1,direct=1,switch=1,net_alpha=1,net_beta=1"),
        std::string("alpha=1,beta=inf,gamma=1,direct=1,switch=1,net_alpha=1,net_beta=1"),
        std::string("beta=1,alpha=1,gamma=1,direct=1,switch=1,net_alpha=1,net_beta=1")}) {
    try {
      CostModel::parse(bad);
      ADD_FAILURE() << "accepted '" << bad << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      EXPECT_NE(std::string(error.what()).find("alpha=S"), std::string::npos) << error.what();
    }
  }
}

void expect_usable(const CostModel& model) {
  for (const double constant : {model.alpha, model.beta, model.gamma, model.direct, model.switch_cost}) {
    EXPECT_TRUE(std::isfinite(constant) && constant > 0) << model.text();
    EXPECT_LT(constant, 1.0) << model.text();
  }
}

TEST(MeasureCost, GivesPositiveConstantsThatAreTheSameOnAllRanks) {
  for (const int n : {1, 2, 3, 5}) {
    std::mutex mutex;
    std::vector<std::string> seen;
    const SteadyClock clock;
    const TimePoint start = clock.now();
    run_ranks(n, [&](Endpoint& endpoint) {
      Communicator world(endpoint, Group::world(n));
      const CostModel model = measure_cost(world);
      expect_usable(model);
      world.barrier();  // still usable
      const std::lock_guard lock(mutex);
      seen.push_back(model.text());
    });
    EXPECT_LT(seconds(clock.now() - start), 10.0);
    ASSERT_EQ(seen.size(), static_cast<std::size_t>(n));
    for (const std::string& text : seen) EXPECT_EQ(text, seen.front());
  }
}

// In virtual time computing takes none: no constant may become zero for that.
TEST(MeasureCost, WorksWhereTimeStandsStill) {
  const SimReport report = run_sim({.ranks = 3, .seed = 7}, [](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    expect_usable(measure_cost(world));
  });
  report.rethrow();
}

}  // namespace
}  // namespace paceline
