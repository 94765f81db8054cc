// What training makes of updates that are lost, and of messages that come twice.
#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/random.hpp"
#include "paceline/server/server_test_support.hpp"
#include "paceline/server/shard_test_support.hpp"

namespace paceline {
namespace {

using server_test::ShardBench;
using server_test::TestJob;

constexpr std::size_t kFeatures = 20;
constexpr std::size_t kExamples = 4000;

// Two classes, told apart by a hidden direction but for some noise.
struct Examples {
  explicit Examples(std::uint64_t stream) : features(kExamples * kFeatures), labels(kExamples) {
    Random hidden(11, 0);
    std::vector<double> direction(kFeatures);
    for (double& part : direction) part = 2 * hidden.uniform() - 1;
    Random random(11, stream);
    for (std::size_t e = 0; e < kExamples; ++e) {
      double score = 0.6 * (2 * random.uniform() - 1);
      for (std::size_t f = 0; f < kFeatures; ++f) {
        features[e * kFeatures + f] = static_cast<float>(2 * random.uniform() - 1);
        score += direction[f] * features[e * kFeatures + f];
      }
      labels[e] = score > 0 ? 1 : 0;
    }
  }
  double chance(std::size_t example, std::span<const float> weights) const {
    double score = 0;
    for (std::size_t f = 0; f < kFeatures; ++f) score += weights[f] * features[example * kFeatures + f];
    return 1 / (1 + std::exp(-score));
  }
  double accuracy(std::span<const float> weights) const {
    std::size_t right = 0;
    for (std::size_t e = 0; e < kExamples; ++e) right += (chance(e, weights) > 0.5) == (labels[e] == 1) ? 1 : 0;
    return 100 * static_cast<double>(right) / kExamples;
  }

  std::vector<float> features;
  std::vector<int> labels;
};

struct Trained {
  double accuracy = 0;
  std::uint64_t dropped = 0;
};

// Logistic regression by four workers over two servers, in virtual time with delays.
Trained train(const char* policy, double drop_pushes, std::uint64_t seed) {
  const TestJob job{.workers = 4, .servers = 2, .policy = parse_policy(policy)};
  const Examples examples(1);
  Trained trained;
  std::vector<float> end(kFeatures);
  const SimReport report =
      run_sim({.ranks = 6, .seed = seed, .faults = Faults::random_delays(seed, 6)}, [&](Endpoint& endpoint) {
        const int worker = endpoint.rank();
        if (worker >= job.workers) return server_test::run_rank(job, endpoint, {});
        SessionOptions options = job.session(worker);
        options.drop_pushes = drop_pushes;
        options.drop_seed = seed;
        Session session(endpoint, options);
        Table table = session.open({.name = "w", .kind = TableSpec::Kind::dense, .rows = kFeatures});
        Random random(seed, 100 + static_cast<std::uint64_t>(worker));
        std::vector<float> weights(kFeatures);
        for (int step = 0; step < 300; ++step) {
          table.get({0, kFeatures}, weights);
          std::vector<float> change(kFeatures);
          for (int b = 0; b < 16; ++b) {
            const std::size_t e = random.below(kExamples);
            const double slope = examples.labels[e] - examples.chance(e, weights);
            for (std::size_t f = 0; f < kFeatures; ++f)
              change[f] += static_cast<float>(0.02 * slope) * examples.features[e * kFeatures + f];
          }
          table.inc({0, kFeatures}, change);
          session.clock();
        }
        session.leave();
        trained.dropped += session.counters().dropped;
        table.pull({0, kFeatures}, weights).wait();
        if (worker == 0) end = weights;
      });
  EXPECT_EQ(report.stopped, "") << report.describe();
  report.rethrow();
  trained.accuracy = Examples(2).accuracy(end);
  return trained;
}

TEST(LostUpdates, OnePercentOfThemCostsLessThanHalfAPointOfAccuracy) {
  for (const char* policy : {"async", "ssp:2"}) {
    double whole = 0;
    double with_losses = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      whole += train(policy, 0, seed).accuracy / 3;
      const Trained trained = train(policy, 0.01, seed);
      with_losses += trained.accuracy / 3;
      EXPECT_GT(trained.dropped, 8U);  // of 2,400
      EXPECT_LT(trained.dropped, 60U);
    }
    EXPECT_GT(whole, 88) << policy;
    EXPECT_NEAR(with_losses, whole, 0.5) << policy;
  }
}

TEST(LostUpdates, AreReallyLost) {
  const TestJob job{.policy = parse_policy("async")};
  run_ranks(2, [&](Endpoint& endpoint) {
    if (endpoint.rank() == 1) return server_test::run_rank(job, endpoint, {});
    SessionOptions options = job.session(0);
    options.drop_pushes = 0.5;
    Session session(endpoint, options);
    Table dense = session.open({.name = "d", .kind = TableSpec::Kind::dense, .rows = 1});
    Table sparse = session.open({.name = "s"});
    const std::vector<std::uint64_t> key = {5};
    const std::vector<float> one = {1};
    std::vector<float> read(1);
    for (int i = 0; i < 200; ++i) {
      dense.push({0, 1}, one).wait();
      sparse.push_pull(key, one, read).wait();
    }
    const float from_sparse = read[0];
    dense.pull({0, 1}, read).wait();
    EXPECT_EQ(read[0] + from_sparse, static_cast<float>(400 - session.counters().dropped));
    EXPECT_GT(session.counters().dropped, 100U);
    session.leave();
  });
}

// Each message once, twice or three times, the later ones at any time after the first.
TEST(RepeatedMessages, ChangeNothingWhateverThePolicyAndWhenTheyCome) {
  for (const char* policy : {"bsp", "ssp:1", "async", "softsync:2"}) {
    std::vector<float> expected;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      ShardBench bench(parse_policy(policy), 2);
      Random random(seed, 1);
      std::vector<std::pair<int, std::vector<std::byte>>> again;
      const auto say = [&](int worker, const std::vector<std::byte>& message) {
        bench.say(worker, message);
        for (std::uint64_t copies = seed == 0 ? 0 : random.below(3); copies > 0; --copies)
          again.emplace_back(worker, message);
        while (!again.empty() && random.below(2) == 0) {
          const std::size_t which = random.below(again.size());
          bench.say(again[which].first, again[which].second);
          again.erase(again.begin() + static_cast<std::ptrdiff_t>(which));
        }
      };
      for (int worker = 0; worker < 2; ++worker)
        bench.open(worker, {.name = "w", .kind = TableSpec::Kind::dense, .rows = 4});
      for (int step = 0; step < 10; ++step) {
        for (int worker = 0; worker < 2; ++worker) {
          RequestHeader push = bench.range(worker, Verb::push, {0, 4});
          push.clock = step;
          say(worker, ShardBench::message(push, {}, std::vector<float>(4, static_cast<float>(step * 3 + worker))));
          RequestHeader clock = bench.next(worker, Verb::clock);
          clock.clock = step + 1;
          say(worker, ShardBench::message(clock));
        }
      }
      for (const auto& [worker, message] : again) bench.say(worker, message);
      const auto values = bench.values(0, bench.pull(0, {0, 4}, 0));
      if (seed == 0) expected = values;
      EXPECT_EQ(values, expected) << policy << ", seed " << seed;
    }
    EXPECT_EQ(expected, std::vector<float>(4, 280)) << policy;
  }
}

}  // namespace
}  // namespace paceline
