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
  Arena arena = endpoint.allocate(kCount * sizeof(float));
  const auto values = arena.as<float>().first(kCount);
  const auto exchange = make_exchange(communicator, parse_plan(plan), {.gradients = {view(values)}});
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::int64_t i = 0; i < kCount; ++i)
      values[i] = std::sin(static_cast<float>((endpoint.rank() + 1) * i + step));
    int index = 0;
    for (std::int64_t at = 0; at < kCount; at += bucket) {
      const auto part = values.subspan(at, std::min(bucket, kCount - at));
      exchange->submit({.index = index++, .name = "bucket", .gradient = view(part)}, step);
      exchange->progress();
    }
    exchange->finish();
  }
  if (endpoint.rank() == 0) result.assign(values.begin(), values.end());
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
    if (parse_plan("where=" + word).route() != Where::allreduce) continue;
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
    Arena arena = endpoint.allocate(2 * 4096);
    const auto a = arena.as<float>().first(1000), b = arena.as<float>().subspan(1024, 1000);
    const auto exchange =
        make_exchange(communicator, Plan{}, {.gradients = {view(arena.as<float>())}, .trace = &trace});
    exchange->submit({.index = 0, .name = "a", .gradient = view(a)}, 5);
    exchange->submit({.index = 1, .name = "b", .gradient = view(b)}, 5);
    exchange->finish();
    EXPECT_GE(exchange->waited().count(), 0);
    EXPECT_GT(exchange->communicated().count(), 0);
    if (endpoint.rank() == 0) events = trace.events();
    communicator.barrier();
  });
  int reductions = 0;
  for (const TraceEvent& event : events) {
    if (event.activity == Activity::reduction) {
      EXPECT_EQ(event.step, 5);
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
    Arena values = endpoint.allocate(400'000);
    try {
      const auto exchange = make_exchange(communicator, Plan{}, {.gradients = {view(values.as<float>())}});
      if (endpoint.rank() == 1) communicator.give_up("step 12: NaN or Inf in the gradient of fc1.weight", 1);
      exchange->submit({.index = 0, .name = "fc1.weight", .gradient = view(values.as<float>())}, 12);
      exchange->finish();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unsound) << error.what();
      EXPECT_EQ(error.rank(), 1);
      const std::string text = error.what();
      if (text.find("rank 1") == 0 && text.ends_with(": step 12: NaN or Inf in the gradient of fc1.weight")) ++told;
    }
  });
  EXPECT_EQ(told, 3);
}

// Each rank finds what lies in its slice, whosever it is.
TEST(Exchange, ABadValueIsFoundBeforeItIsAddedToAnything) {
  run_ranks(3, [&](Endpoint& endpoint) {
    auto communicator = Communicator::beside(endpoint, Group::world(3), "bad values");
    Arena arena = endpoint.allocate(30'000 * sizeof(float));
    const auto values = arena.as<float>().first(30'000);
    std::fill(values.begin(), values.end(), 1.0f);
    if (endpoint.rank() == 2) values[15'000] = std::nanf("");  // in slice 1
    const auto exchange = make_exchange(communicator, Plan{}, {.gradients = {view(values)}, .check_finite = true});
    exchange->submit({.index = 4, .name = "all", .gradient = view(values)}, 1);
    exchange->settle();
    const auto& bad = exchange->bad_value();
    ASSERT_EQ(bad.has_value(), endpoint.rank() == 1);
    if (bad) {
      EXPECT_EQ(bad->rank, 2);
      EXPECT_EQ(bad->bucket, 4);
      EXPECT_EQ(bad->offset, 15'000 * sizeof(float));
      EXPECT_EQ(values[15'000], 1.0f);
    }
    communicator.barrier();
  });
}

// What a sharded optimizer does: own slices of the parameters, from averages that nobody else has.
TEST(Exchange, OwnSlicesCanBeUpdatedAndPublished) {
  for (const std::string where : {"shm", "ring"}) {
    run_ranks(3, [&](Endpoint& endpoint) {
      auto communicator = Communicator::beside(endpoint, Group::world(3), "publish");
      Arena gradient_arena = endpoint.allocate(10'007 * sizeof(float));
      Arena parameter_arena = endpoint.allocate(10'007 * sizeof(float));
      const auto gradients = gradient_arena.as<float>().first(10'007);
      const auto parameters = parameter_arena.as<float>().first(10'007);
      const auto exchange = make_exchange(communicator, parse_plan("where=" + where),
                                          {.gradients = {view(gradients)}, .parameters = {view(parameters)}});
      EXPECT_EQ(exchange->shares_update(), where == "shm");
      for (int step = 0; step < 4; ++step) {
        for (std::size_t i = 0; i < gradients.size(); ++i)
          gradients[i] = static_cast<float>(endpoint.rank() * 3 + step);
        const Bucket bucket{.index = 0, .name = "all", .gradient = view(gradients)};
        exchange->submit(bucket, step);
        exchange->settle();
        const Slice own = exchange->own_slice(bucket);
        for (std::size_t i = own.first / sizeof(float); i < own.last / sizeof(float); ++i)
          parameters[i] += gradients[i];
        exchange->publish(reinterpret_cast<const std::byte*>(parameters.data()) + own.first, own.last - own.first);
        exchange->end_publishing();
      }
      for (const float parameter : parameters) ASSERT_EQ(parameter, 3 * 4 + 0 + 1 + 2 + 3) << where;
      communicator.barrier();
    });
  }
}

// Three steps under way at once, in memory of their own; each is waited for two steps later.
TEST(Exchange, LaterStepsTravelWhileEarlierOnesAreWaitedFor) {
  constexpr int kSteps = 3, kRounds = 9;
  for (const std::string& where : plan_words("where")) {
    if (parse_plan("where=" + where).route() != Where::allreduce) continue;
    run_ranks(3, [&](Endpoint& endpoint) {
      auto communicator = Communicator::beside(endpoint, Group::world(3), "delayed");
      Arena arena = endpoint.allocate(kSteps * 4096 * sizeof(float));
      const auto all = arena.as<float>().first(kSteps * 4096);
      const auto exchange =
          make_exchange(communicator, parse_plan("when=delayed:2 where=" + where), {.gradients = {view(all)}});
      for (int step = 0; step < kRounds + 2; ++step) {
        if (step < kRounds) {
          const auto own = all.subspan(static_cast<std::size_t>(step % kSteps) * 4096, 4096);
          for (float& value : own) value = static_cast<float>(3 * endpoint.rank() + step);
          exchange->submit({.index = 0, .name = "first", .gradient = view(own.first(1000))}, step);
          exchange->submit({.index = 1, .name = "second", .gradient = view(own.subspan(1000))}, step);
        }
        if (step < 2) continue;
        exchange->finish(step - 2);
        for (const float value : all.subspan(static_cast<std::size_t>((step - 2) % kSteps) * 4096, 4096))
          ASSERT_EQ(value, static_cast<float>(3 + step - 2)) << where;
      }
      communicator.barrier();
    });
  }
}

}  // namespace
}  // namespace paceline
