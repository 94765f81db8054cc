#include "paceline/torch/sharpness.hpp"

#include <cmath>

#include "paceline/data/split.hpp"
#include "paceline/data/synthetic.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

// The mean over rows e_1 and e_2 of (w.x - y)^2: ((w_1 - a)^2 + (w_2 - b)^2) / 2.
struct Quadratic {
  float a = 1;
  float b = -2;

  Dataset data() const { return Dataset::of_rows(2, {1, 0, 0, 1}, {a, b}, "quadratic"); }
  Model model(float w1, float w2) const {
    torch::nn::Linear linear(torch::nn::LinearOptions(2, 1).bias(false));
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(torch::tensor({{w1, w2}}));
    return {linear.ptr(), [linear](const torch::Tensor& x) mutable { return linear(x.reshape({-1, 2})); }};
  }
  double loss(double w1, double w2) const { return ((w1 - a) * (w1 - a) + (w2 - b) * (w2 - b)) / 2; }
  // In a corner of the box, away from (a, b).
  double worst(double w1, double w2, double epsilon) const {
    const double r1 = epsilon * (std::abs(w1) + 1), r2 = epsilon * (std::abs(w2) + 1);
    return (std::pow(std::abs(w1 - a) + r1, 2) + std::pow(std::abs(w2 - b) + r2, 2)) / 2;
  }
};

Sharpness measure(const Quadratic& problem, float w1, float w2, double epsilon) {
  return sharpness_of(problem.model(w1, w2), problem.data(), {}, {.epsilon = epsilon});
}

TEST(Sharpness, IsKnownOfAQuadratic) {
  const Quadratic problem;
  for (const double epsilon : {0.5, 0.01}) {
    for (const auto& [w1, w2] : {std::pair{1.5f, -3.0f}, {0.0f, 0.0f}, {1.0f, 4.0f}}) {
      const Sharpness found = measure(problem, w1, w2, epsilon);
      const double loss = problem.loss(w1, w2), worst = problem.worst(w1, w2, epsilon);
      EXPECT_NEAR(found.loss, loss, 1e-6);
      EXPECT_NEAR(found.worst_loss, worst, 1e-5) << w1 << " " << w2;
      EXPECT_NEAR(found.percent, 100 * (worst - loss) / (1 + loss), 1e-3) << w1 << " " << w2;
      EXPECT_EQ(found.examples, 2u);
    }
  }
}

// There the gradient is zero: only a start beside the middle leads anywhere.
TEST(Sharpness, OfTheVeryMinimumIsFoundToo) {
  const Quadratic problem;
  EXPECT_NEAR(measure(problem, 1, -2, 0.1).percent, 100 * problem.worst(1, -2, 0.1), 1e-3);
}

TEST(Sharpness, GrowsWithTheCurvature) {
  EXPECT_GT(measure({.a = 0, .b = 0}, 3, 3, 0.01).percent, measure({.a = 2.9f, .b = 2.9f}, 3, 3, 0.01).percent);
}

Model make_lenet() {
  torch::manual_seed(3);
  return make_model(parse_model("lenet"), {Kind::images, {1, 28, 28}, 10});
}

DataSplit images() { return make_synthetic({.shape = {1, 28, 28}, .classes = 10, .train = 300, .test = 10}); }

TEST(Sharpness, LeavesTheModelAsItWas) {
  const DataSplit data = images();
  const Model model = make_lenet();
  const std::vector<torch::Tensor> parameters = model.module->parameters();
  for (const torch::Tensor& parameter : parameters) parameter.mutable_grad() = torch::ones_like(parameter);
  const auto before = copies(parameters);
  std::vector<void*> memory;
  for (const torch::Tensor& parameter : parameters) memory.push_back(parameter.data_ptr());
  const Sharpness found =
      sharpness_of(model, data.train, data.normalisation, {.epsilon = 0.01, .examples = 100, .steps = 3});
  EXPECT_GT(found.percent, 0);
  EXPECT_EQ(found.examples, 100u);
  EXPECT_TRUE(same_bits(copies(parameters), before));
  EXPECT_TRUE(model.module->is_training());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(parameters[i].data_ptr(), memory[i]);
    EXPECT_TRUE(torch::equal(parameters[i].grad(), torch::ones_like(parameters[i])));
  }
}

TEST(Sharpness, IsTheSameForTheSameSeedAndFromRanksThatShareTheWork) {
  const DataSplit data = images();
  const SharpnessOptions options{.epsilon = 0.01, .examples = 90, .steps = 3, .batch = 32};
  const Model model = make_lenet();
  const double alone = sharpness_of(model, data.train, data.normalisation, options).percent;
  EXPECT_EQ(sharpness_of(model, data.train, data.normalisation, options).percent, alone);
  const auto weights = copies(model.module->parameters());
  std::vector<double> found(2);
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(2));
    Model own;
    {
      static std::mutex mutex;  // seeding is global
      const std::lock_guard lock(mutex);
      own = make_lenet();
    }
    EXPECT_TRUE(same_bits(copies(own.module->parameters()), weights));
    SharpnessOptions shared = options;
    shared.communicator = &world;
    found[static_cast<std::size_t>(world.rank())] = sharpness_of(own, data.train, data.normalisation, shared).percent;
  });
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NEAR(found[0] / alone, 1, 1e-3);
}

TEST(Sharpness, RefusesWhatGivesNothingToDo) {
  const Quadratic problem;
  const auto refused = [&](const SharpnessOptions& options) {
    return sentence_of([&] { sharpness_of(problem.model(0, 0), problem.data(), {}, options); });
  };
  EXPECT_TRUE(contains(refused({.epsilon = 0}), "epsilon above 0"));
  EXPECT_TRUE(contains(refused({.steps = 0}), "one step"));
  EXPECT_TRUE(contains(sentence_of([&] { sharpness_of(problem.model(0, 0), Dataset(), {}, {}); }), "has none"));
}

}  // namespace
}  // namespace paceline
