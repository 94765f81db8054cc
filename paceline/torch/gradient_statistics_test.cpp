#include "paceline/torch/gradient_statistics.hpp"

#include <cmath>

#include "paceline/torch/large_batch_test_support.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kSetSize = 1000;

// After so many steps, in each of which every rank has parts of these sizes.
GradientFigures measure(int ranks, int steps, const std::vector<std::int64_t>& sizes, double decay = 0.9995) {
  GradientFigures result;
  run_shm_ranks(ranks, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(ranks));
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(17 + world.rank()));
    const torch::Tensor w = torch::ones({5}, torch::requires_grad());
    GradientStatistics statistics({w}, kSetSize, decay);
    GradientParts parts({w}, {&statistics});
    std::int64_t examples = 0;
    for (const std::int64_t size : sizes) examples += size;
    for (int step = 0; step < steps; ++step) {
      backward_in_parts(w, kProblem.examples(examples, generator), sizes, parts, ranks, ranks * examples);
      allreduce(world, w.mutable_grad(), ReduceOp::average);
      statistics.end_step(world);
    }
    if (world.rank() == 0) result = statistics.figures();
  });
  return result;
}

void expect_right(const GradientFigures& found, const std::string& what) {
  const double scale = kProblem.trace() / kProblem.squared_mean();
  EXPECT_NEAR(found.noise / kProblem.trace(), 1, 0.05) << what;
  EXPECT_NEAR(found.signal / kProblem.squared_mean(), 1, 0.1) << what;
  ASSERT_TRUE(found.noise_scale.has_value()) << what;
  EXPECT_NEAR(*found.noise_scale / scale, 1, 0.1) << what;
  EXPECT_NEAR(*found.diversity_bound / (scale + 1), 1, 0.1) << what;
  EXPECT_NEAR(*found.diversity * kSetSize, *found.diversity_bound, 1e-9) << what;
}

TEST(GradientStatistics, FindWhatIsKnownOfALinearModel) {
  expect_right(measure(1, 1000, std::vector<std::int64_t>(8, 4)), "one worker, eight parts");
  expect_right(measure(1, 1000, {1, 9, 2, 16, 4}), "parts of different sizes");
}

TEST(GradientStatistics, TakeWorkersForParts) {
  expect_right(measure(3, 1000, {8}), "three workers, one part each");
  expect_right(measure(2, 1000, {4, 6, 6}), "two workers, three parts each");
}

// Of examples' own gradients, by the definition.
TEST(GradientStatistics, DiversityIsThatOfTheDefinition) {
  auto generator = at::detail::createCPUGenerator(2);
  const torch::Tensor x = kProblem.examples(kSetSize, generator).to(torch::kDouble);
  const double by_definition = x.square().sum().item<double>() / x.sum(0).square().sum().item<double>();
  EXPECT_NEAR(*measure(1, 1000, std::vector<std::int64_t>(8, 4)).diversity / by_definition, 1, 0.15);
}

TEST(GradientStatistics, OfOnePartAreUnknown) {
  const GradientFigures found = measure(1, 5, {32});
  EXPECT_EQ(found.steps, 0);
  EXPECT_FALSE(found.noise_scale.has_value());
  EXPECT_TRUE(to_json(found)["noise_scale"].is_null());
  EXPECT_TRUE(contains(found.text(), "not known"));
}

GradientStatistics::Sums step_of(double noise, double signal) {
  const double examples = 64, parts = 8, norm = signal + noise / examples;
  return {noise * (parts - 1) + examples * norm, parts, examples, norm};
}

TEST(GradientStatistics, FollowAChangeAtTheirDecay) {
  GradientStatistics statistics({}, kSetSize, 0.9);
  for (int step = 0; step < 200; ++step) statistics.absorb(step_of(12, 3));
  EXPECT_NEAR(*statistics.figures().noise_scale, 4, 1e-6);
  for (int step = 0; step < 22; ++step) statistics.absorb(step_of(12, 1));
  EXPECT_NEAR(statistics.figures().signal, 1 + 2 * std::pow(0.9, 22), 1e-6);
  for (int step = 0; step < 200; ++step) statistics.absorb(step_of(12, 1));
  EXPECT_NEAR(*statistics.figures().noise_scale, 12, 1e-6);
}

TEST(GradientStatistics, AGradientThatDrownsInNoiseHasNoScale) {
  GradientStatistics statistics({}, kSetSize);
  statistics.absorb(step_of(12, -0.1));  // an estimate without bias can be below zero
  EXPECT_FALSE(statistics.figures().noise_scale.has_value());
  EXPECT_TRUE(contains(statistics.figures().text(), "cannot be told"));
}

TEST(GradientStatistics, GoOnFromTheirState) {
  GradientStatistics straight({}, kSetSize), first({}, kSetSize), second({}, kSetSize);
  for (int step = 0; step < 10; ++step) {
    straight.absorb(step_of(step + 1, 2));
    (step < 4 ? first : second).absorb(step_of(step + 1, 2));
    if (step == 3) second.restore(first.state());
  }
  EXPECT_EQ(to_json(second.figures()), to_json(straight.figures()));
}

}  // namespace
}  // namespace paceline
