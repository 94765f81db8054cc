#include "paceline/exchange/exchange.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kCount = 10'000;

// Reduces a vector in buckets of the given size and gives back what rank 0 has then.
void reduce_in_buckets(Endpoint& endpoint, const std::string& plan, std::int64_t bucket, std::vector<float>& result) {
  Communicator communicator = Communicator::beside(endpoint, Group::world(endpoint.size()), "exchange");
  Exchange exchange(communicator, parse_plan(plan));
  Arena arena = endpoint.allocate(kCount * sizeof(float));
  const auto values = arena.as<float>();
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::int64_t i = 0; i < kCount; ++i)
      values[i] = std::sin(static_cast<float>((endpoint.rank() + 1) * i + step));
    int index = 0;
    for (std::int64_t at = 0; at < kCount; at += bucket) {
      const auto part = values.subspan(at, std::min(bucket, kCount - at));
      exchange.submit({.index = index++, .name = "bucket", .gradient = view(part)}, step);
      exchange.progress();
    }
    exchange.finish();
  }
  if (endpoint.rank() == 0) result.assign(values.begin(), values.begin() + kCount);
  communicator.barrier();  // others may still read this rank's arena
}

std::vector<float> reduced(int ranks, const std::string& plan, std::int64_t bucket) {
  std::vector<float> result;
  run_ranks(ranks, [&](Endpoint& endpoint) { reduce_in_buckets(endpoint, plan, bucket, result); });
  return result;
}

TEST(Exchange, BitsDoNotDependOnTheBucketSizeNorOnWhichOfShmAndOrdered) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto whole = reduced(ranks, "where=ordered", kCount);
    EXPECT_EQ(whole, reduced(ranks, "where=ordered", 999));
    EXPECT_EQ(whole, reduced(ranks, "where=shm", kCount));
    EXPECT_EQ(whole, reduced(ranks, "where=shm", 77));
    EXPECT_EQ(whole, reduced(ranks, "", 1234));
  }
}

TEST(Exchange, EveryRouteAverages) {
  const auto expected = reduced(3, "where=ordered", kCount);
  for (const std::string& word : plan_words("where")) {
    const auto found = reduced(3, "where=" + word, 2048);
    for (std::int64_t i = 0; i < kCount; ++i) ASSERT_NEAR(found[i], expected[i], 1e-6) << word << " at " << i;
  }
}

TEST(Exchange, RunsInVirtualTimeAsWell) {
  std::vector<float> result;
  const SimReport report =
      run_sim({.ranks = 3, .seed = 7}, [&](Endpoint& endpoint) { reduce_in_buckets(endpoint, "", 1000, result); });
  for (const auto& rank : report.ranks) EXPECT_EQ(rank.outcome, SimReport::Outcome::finished);
  EXPECT_EQ(result, reduced(3, "", 1000));
}

TEST(Exchange, TheTraceShowsEachBucketFromItsStartToItsEnd) {
  std::vector<TraceEvent> events;
  run_ranks(2, [&](Endpoint& endpoint) {
    Trace trace(100);
    auto communicator = Communicator::beside(endpoint, Group::world(2), "traced", {.time_waits = true});
    Exchange exchange(communicator, Plan{}, &trace);
    Arena arena = endpoint.allocate(2 * 4096);
    const auto a = arena.as<float>().first(1000), b = arena.as<float>().subspan(1024, 1000);
    exchange.submit({.index = 0, .name = "a", .gradient = view(a)}, 5);
    exchange.submit({.index = 1, .name = "b", .gradient = view(b)}, 5);
    exchange.finish();
    EXPECT_GE(exchange.waited().count(), 0);
    EXPECT_GT(exchange.communicated().count(), 0);
    if (endpoint.rank() == 0) events = trace.events();
    communicator.barrier();
  });
  int reductions = 0;
  for (const TraceEvent& event : events) {
    EXPECT_EQ(event.step, 5);
    if (event.activity == Activity::reduction) {
      EXPECT_EQ(event.bucket, reductions++);
    }
  }
  EXPECT_EQ(reductions, 2);
}

TEST(Exchange, BucketSizesGrowWithTheFixedCosts) {
  run_ranks(2, [&](Endpoint& endpoint) {
    auto quick = Communicator::beside(endpoint, Group::world(2), "quick", {.cost = {.alpha = 1e-7}});
    auto slow = Communicator::beside(endpoint, Group::world(2), "slow", {.cost = {.alpha = 1e-4}});
    const std::size_t small = bucket_bytes_for(quick, Plan{});
    const std::size_t large = bucket_bytes_for(slow, Plan{});
    EXPECT_LT(small, large);
    EXPECT_GE(small, std::size_t{256} << 10);
    EXPECT_LE(large, std::size_t{32} << 20);
  });
}

// A rank whose numbers are wrong takes the others along, and they learn why.
TEST(Exchange, WhoGivesUpIsNamedOnEveryRank) {
  std::atomic<int> told = 0;
  run_ranks(3, [&](Endpoint& endpoint) {
    auto communicator = Communicator::beside(endpoint, Group::world(3), "unsound");
    Exchange exchange(communicator, Plan{});
    Arena values = endpoint.allocate(400'000);
    try {
      if (endpoint.rank() == 1) communicator.give_up("step 12: NaN or Inf in the gradient of fc1.weight");
      exchange.submit({.index = 0, .name = "fc1.weight", .gradient = view(values.as<float>())}, 12);
      exchange.finish();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsound);
      EXPECT_EQ(error.rank(), 1);
      const std::string text = error.what();
      if (text.find("rank 1") == 0 && text.ends_with(": step 12: NaN or Inf in the gradient of fc1.weight")) ++told;
    }
  });
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace paceline
