#include "paceline/torch/covariance_noise.hpp"

#include <cmath>

#include "paceline/torch/large_batch_test_support.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

const std::vector<std::int64_t> kParts(16, 4);

struct Moments {
  torch::Tensor noise;     // mean squares of what was added, by coordinate
  torch::Tensor gradient;  // variance of the gradient with it
  double trace = 0;        // mean of the estimates
  double power = 0;
};

Moments measure(const std::string& spec, int steps, const std::vector<std::int64_t>& sizes = kParts) {
  Moments result{.noise = torch::zeros({5}, torch::kDouble), .gradient = torch::zeros({5}, torch::kDouble)};
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(1));
    auto generator = at::detail::createCPUGenerator(3);
    const torch::Tensor w = torch::ones({5}, torch::requires_grad());
    CovarianceNoise noise(parse_noise(spec), 7, {w});
    GradientParts parts({w}, {&noise});
    std::int64_t examples = 0;
    for (const std::int64_t size : sizes) examples += size;
    for (int step = 0; step < steps; ++step) {
      backward_in_parts(w, kProblem.examples(examples, generator), sizes, parts);
      const torch::Tensor before = w.grad().to(torch::kDouble).clone();
      noise.add(world, step);
      const torch::Tensor after = w.grad().to(torch::kDouble);
      result.noise += (after - before).square() / steps;
      result.gradient += (after - torch::tensor(kProblem.mean, torch::kDouble)).square() / steps;
      result.trace += noise.trace() / steps;
      result.power += noise.power() / steps;
    }
  });
  return result;
}

void expect_close(const torch::Tensor& found, const std::vector<double>& expected, double share,
                  const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[static_cast<std::int64_t>(i)].item<double>() / expected[i], 1, share)
        << what << ", coordinate " << i;
}

std::vector<double> variances(double factor) {
  std::vector<double> result;
  for (const double deviation : kProblem.deviation) result.push_back(factor * deviation * deviation);
  return result;
}

// 1,000 steps: a mean of squares is off by some 5%.
TEST(CovarianceNoise, EachCoordinateGetsTheNoiseThatTheSmallBatchHasMore) {
  const Moments found = measure("fisher-diag:8", 1000);
  expect_close(found.noise, variances(1.0 / 8 - 1.0 / 64), 0.15, "what is added");
  expect_close(found.gradient, variances(1.0 / 8), 0.15, "gradient of a batch of 8");
  EXPECT_NEAR(found.trace / kProblem.trace(), 1, 0.05);
}

TEST(CovarianceNoise, PartsOfDifferentSizesGiveTheSameEstimate) {
  const Moments found = measure("fisher-diag:8", 1000, {1, 9, 2, 2, 16, 30, 3, 1});
  expect_close(found.gradient, variances(1.0 / 8), 0.15, "gradient of a batch of 8");
  EXPECT_NEAR(found.trace / kProblem.trace(), 1, 0.05);
}

TEST(CovarianceNoise, OfTheTraceHasTheSamePowerInAllDirections) {
  const Moments found = measure("fisher-trace:8", 1000);
  const double each = (1.0 / 8 - 1.0 / 64) * kProblem.trace() / 5;
  expect_close(found.noise, std::vector<double>(5, each), 0.15, "what is added");
  EXPECT_NEAR(found.noise.sum().item<double>() / (5 * each), 1, 0.1);
  EXPECT_NEAR(found.power / (5 * each), 1, 0.05);
}

TEST(CovarianceNoise, NothingIsAddedWhereNothingIsMissingOrKnown) {
  for (const auto& [spec, sizes] : std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
           {"fisher-diag:64", kParts}, {"fisher-trace:100", kParts}, {"fisher-diag:8", {64}}}) {
    const Moments found = measure(spec, 3, sizes);
    EXPECT_EQ(found.noise.sum().item<double>(), 0) << spec;
    EXPECT_EQ(found.power, 0) << spec;
  }
}

// The gradient of one step of all ranks, with noise: 48 examples, of which each rank has its share.
torch::Tensor noisy_gradient(int ranks, std::uint64_t seed, std::int64_t step,
                             const std::string& spec = "fisher-diag:4") {
  torch::Tensor result;
  run_shm_ranks(ranks, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(ranks));
    auto generator = at::detail::createCPUGenerator(11);
    const torch::Tensor all = kProblem.examples(48, generator);
    const torch::Tensor w = torch::ones({5}, torch::requires_grad());
    CovarianceNoise noise(parse_noise(spec), seed, {w});
    GradientParts parts({w}, {&noise});
    const std::int64_t share = 48 / ranks;
    backward_in_parts(w, all.narrow(0, share * world.rank(), share),
                      std::vector<std::int64_t>(static_cast<std::size_t>(share / 4), 4), parts, ranks, 48);
    allreduce(world, w.mutable_grad(), ReduceOp::average);
    noise.add(world, step);
    if (world.rank() == 0) result = w.grad().clone();
  });
  return result;
}

TEST(CovarianceNoise, IsTheSameHoweverManyRanksShareTheParts) {
  for (const std::string spec : {"fisher-diag:4", "fisher-trace:4"}) {
    const torch::Tensor alone = noisy_gradient(1, 5, 9, spec);
    for (const int ranks : {2, 3, 4})
      EXPECT_TRUE(torch::allclose(noisy_gradient(ranks, 5, 9, spec), alone, 1e-4, 1e-5)) << spec << ", " << ranks;
  }
}

TEST(CovarianceNoise, ReplaysFromSeedAndStep) {
  EXPECT_TRUE(torch::equal(noisy_gradient(2, 5, 9), noisy_gradient(2, 5, 9)));
  EXPECT_FALSE(torch::equal(noisy_gradient(2, 5, 9), noisy_gradient(2, 5, 10)));
  EXPECT_FALSE(torch::equal(noisy_gradient(2, 5, 9), noisy_gradient(2, 6, 9)));
}

// A few steps of training with noise, as the trainer makes them; the parameters of each rank.
std::vector<std::vector<torch::Tensor>> train(int ranks, int steps, const std::string& spec) {
  std::vector<std::vector<torch::Tensor>> result(static_cast<std::size_t>(ranks));
  run_shm_ranks(ranks, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    DataParallel parallel(endpoint, Group::world(ranks), *net, sgd, "", {.check_every = 1, .share_update = true});
    CovarianceNoise noise(parse_noise(spec), 1, trained(net->parameters()));
    GradientParts parts(trained(net->parameters()), {&noise});
    for (int step = 0; step < steps; ++step) {
      const torch::Tensor x = inputs(endpoint.rank(), step);
      net->zero_grad(true);
      parts.begin();
      for (int part = 0; part < 4; ++part) {
        const auto quiet = parallel.no_sync();
        (loss_of(net, x.narrow(0, 2 * part, 2)) * 0.25).backward();
        parts.after_part({.examples = 2, .weight = 0.25});
      }
      parallel.finish();
      noise.add(parallel.communicator(), step);
      EXPECT_GT(noise.power(), 0);
      parallel.clip_grad_norm(1.0);
      parallel.step();
    }
    result[static_cast<std::size_t>(endpoint.rank())] = copies(net->parameters());
  });
  return result;
}

TEST(CovarianceNoise, KeepsReplicasIdentical) {
  for (const std::string spec : {"fisher-diag:2", "fisher-trace:2"}) {
    for (const int ranks : {2, 3}) {
      const auto models = train(ranks, 8, spec);
      for (const auto& model : models) EXPECT_TRUE(same_bits(model, models[0])) << spec << ", " << ranks << " ranks";
      EXPECT_TRUE(same_bits(train(ranks, 8, spec)[0], models[0])) << "a second run";
    }
  }
}

TEST(GradientParts, GivesEachPartItsOwn) {
  struct Keep final : PartObserver {
    void begin_step() override { seen.clear(); }
    void begin_part(const Part&) override { seen.emplace_back(); }
    void observe(std::size_t parameter, const torch::Tensor& gradient) override {
      seen.back().emplace_back(parameter, gradient.clone());
    }
    std::vector<std::vector<std::pair<std::size_t, torch::Tensor>>> seen;
  } keep;
  const torch::Tensor a = torch::zeros({2}, torch::requires_grad()), b = torch::zeros({3}, torch::requires_grad());
  GradientParts parts({a, b}, {&keep});
  for (int step = 0; step < 2; ++step) {
    a.mutable_grad() = b.mutable_grad() = torch::Tensor();
    parts.begin();
    (a.sum() * 2).backward();
    parts.after_part({.examples = 1});
    (a.sum() * 3 + b.sum() * 5).backward();
    parts.after_part({.examples = 1});
    (b.sum() * 7).backward();
    parts.after_part({.examples = 1});
    ASSERT_EQ(keep.seen.size(), 3u);
    ASSERT_EQ(keep.seen[0].size(), 1u);  // b had no gradient yet
    EXPECT_TRUE(torch::equal(keep.seen[0][0].second, torch::full({2}, 2.0f)));
    EXPECT_TRUE(torch::equal(keep.seen[1][0].second, torch::full({2}, 3.0f)));
    EXPECT_TRUE(torch::equal(keep.seen[1][1].second, torch::full({3}, 5.0f)));
    EXPECT_TRUE(torch::equal(keep.seen[2][0].second, torch::zeros({2})));
    EXPECT_TRUE(torch::equal(keep.seen[2][1].second, torch::full({3}, 7.0f)));
  }
  EXPECT_TRUE(torch::equal(b.grad(), torch::full({3}, 12.0f)));
}

TEST(GradientParts, TakesEachTrainedParameterOnce) {
  const torch::Tensor a = torch::zeros({2}, torch::requires_grad()), frozen = torch::zeros({2});
  EXPECT_EQ(trained({a, frozen, a}).size(), 1u);
}

TEST(GradientParts, RefusesSparseGradients) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  GradientParts parts(embedding->parameters(), {});
  parts.begin();
  embedding(torch::tensor({1, 3})).sum().backward();
  EXPECT_TRUE(contains(sentence_of([&] { parts.after_part({.examples = 1}); }), "dense"));
}

}  // namespace
}  // namespace paceline
