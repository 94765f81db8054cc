#include "paceline/torch/fused_optimizer.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "paceline/torch/lamb.hpp"
#include "paceline/torch/lars.hpp"
#include "paceline/torch/parallel_test_support.hpp"
#include "paceline/torch/replicas.hpp"
#include "paceline/torch/trust_ratio.hpp"

namespace paceline {
namespace {

using Parameters = std::vector<torch::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Parameters)>;

template <class Optimizer, class Options>
MakeOptimizer maker(const Options& options) {
  return [options](Parameters parameters) { return std::make_unique<Optimizer>(std::move(parameters), options); };
}

struct OptimizerCase {
  const char* name;
  MakeOptimizer make;
};

std::vector<OptimizerCase> all_cases() {
  using namespace torch::optim;
  return {
      {"sgd", maker<SGD>(SGDOptions(0.1).weight_decay(0.01))},
      {"dampened momentum", maker<SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.3).weight_decay(0.01))},
      {"nesterov", maker<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01))},
      {"adam", maker<Adam>(AdamOptions(0.01).betas({0.8, 0.99}).weight_decay(0.1))},
      {"adamw", maker<AdamW>(AdamWOptions(0.01).betas({0.8, 0.99}).weight_decay(0.1))},
      {"adagrad", maker<Adagrad>(AdagradOptions(0.1))},
      {"adagrad with all options",
       maker<Adagrad>(AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.5).eps(1e-3).weight_decay(0.1))},
      {"rmsprop", maker<RMSprop>(RMSpropOptions(0.01).alpha(0.9).weight_decay(0.1))},
      {"rmsprop with momentum", maker<RMSprop>(RMSpropOptions(0.01).momentum(0.9).eps(1e-3))},
      {"centered rmsprop", maker<RMSprop>(RMSpropOptions(0.01).alpha(0.9).centered(true))},
      {"centered rmsprop with momentum",
       maker<RMSprop>(RMSpropOptions(0.01).alpha(0.9).momentum(0.5).centered(true).weight_decay(0.1))},
      {"lars", maker<Lars>(LarsOptions(1).weight_decay(0.1).eta(0.01))},
      {"lars without momentum", maker<Lars>(LarsOptions(1).momentum(0).eta(0.01))},
      {"lamb", maker<Lamb>(LambOptions(0.01).betas({0.8, 0.99}).weight_decay(0.1))},
  };
}

// ---- without other ranks

constexpr int kTrainedSteps = 20;

torch::Tensor random_like(const std::vector<std::int64_t>& shape, torch::ScalarType type, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator, torch::TensorOptions().dtype(torch::kDouble)).to(type);
}

// Odd sizes, one of several blocks.
Parameters random_parameters(torch::ScalarType type) {
  const std::vector<std::vector<std::int64_t>> shapes = {{1}, {7}, {3, 5}, {17, 31}, {129, 67}, {2, 3, 5, 7}, {4099}};
  Parameters all;
  for (std::size_t i = 0; i < shapes.size(); ++i) all.push_back(random_like(shapes[i], type, i).requires_grad_());
  return all;
}

torch::Tensor gradient_of(const torch::Tensor& parameter, int step, std::size_t index) {
  return random_like(parameter.sizes().vec(), parameter.scalar_type(),
                     1000 + 100 * static_cast<std::uint64_t>(step) + index);
}

Parameters train_stock(const MakeOptimizer& make, torch::ScalarType type) {
  Parameters parameters = random_parameters(type);
  const auto optimizer = make(parameters);
  for (int step = 0; step < kTrainedSteps; ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].mutable_grad() = gradient_of(parameters[i], step, i);
    optimizer->step();
  }
  return copies(parameters);
}

// In two ranges for each parameter, cut at an odd place.
void step_fused(FusedOptimizer& fused, const ParameterArena& arena) {
  fused.begin_step(std::vector<bool>(arena.size(), true));
  for (std::size_t i = 0; i < arena.size(); ++i) {
    const std::int64_t count = arena.parameter_view(i).count;
    fused.measure(i);
    fused.update(i, 0, count / 3);
    fused.update(i, count / 3, count - count / 3);
  }
}

std::unique_ptr<ParameterArena> arena_of(Endpoint& endpoint, const Parameters& parameters) {
  std::vector<ArenaTensor> tensors;
  for (const torch::Tensor& parameter : parameters) tensors.push_back({std::to_string(tensors.size()), parameter});
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return std::make_unique<ParameterArena>(endpoint, std::move(tensors), order);
}

Parameters train_fused(const MakeOptimizer& make, torch::ScalarType type) {
  Parameters result;
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    Parameters parameters = random_parameters(type);
    const auto optimizer = make(parameters);
    const auto arena = arena_of(endpoint, parameters);
    const auto fused = FusedOptimizer::of(*optimizer, *arena);
    ASSERT_NE(fused, nullptr);
    for (int step = 0; step < kTrainedSteps; ++step) {
      for (std::size_t i = 0; i < parameters.size(); ++i)
        parameters[i].mutable_grad().copy_(gradient_of(parameters[i], step, i));
      step_fused(*fused, *arena);
    }
    result = copies(parameters);
  });
  return result;
}

void expect_close(const Parameters& found, const Parameters& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = (found[i] - expected[i]).abs().max().item<double>();
    EXPECT_LE(difference, tolerance * expected[i].abs().max().item<double>()) << what << ", parameter " << i;
  }
}

TEST(FusedOptimizer, EqualsTheStockOptimizerWithinRounding) {
  for (const OptimizerCase& one : all_cases()) {
    expect_close(train_fused(one.make, torch::kFloat), train_stock(one.make, torch::kFloat), 5e-6, one.name);
    expect_close(train_fused(one.make, torch::kDouble), train_stock(one.make, torch::kDouble), 1e-13, one.name);
  }
}

TEST(FusedOptimizer, OnlyThoseWithoutNormsCanBeSliced) {
  for (const OptimizerCase& one : all_cases()) {
    const auto optimizer = one.make(random_parameters(torch::kFloat));
    const bool has_norms =
        dynamic_cast<Lars*>(optimizer.get()) != nullptr || dynamic_cast<Lamb*>(optimizer.get()) != nullptr;
    EXPECT_EQ(rule_for(*optimizer)->measure != nullptr, has_norms) << one.name;
  }
}

TEST(FusedOptimizer, AVarianceThatRoundingMadeNegativeIsZero) {
  using namespace torch::optim;
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    Parameters parameters = {torch::zeros({1000}).requires_grad_()};
    const auto optimizer = maker<RMSprop>(RMSpropOptions(1e-3).alpha(0.5).centered(true))(parameters);
    const auto arena = arena_of(endpoint, parameters);
    const auto fused = FusedOptimizer::of(*optimizer, *arena);
    const torch::Tensor gradient = random_like({1000}, torch::kFloat, 5);
    for (int step = 0; step < 200; ++step) {
      parameters[0].mutable_grad().copy_(gradient);
      step_fused(*fused, *arena);
    }
    EXPECT_TRUE(torch::isfinite(parameters[0]).all().item<bool>());
  });
}

// ---- Lars and Lamb against their papers, element by element

using Vector = std::vector<double>;

double plain_norm(const Vector& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

Vector values_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().to(torch::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

struct PlainLars {
  double rate = 1, momentum = 0.9, decay = 0.1, eta = 0.01, eps = 1e-8;
  Vector buffer = {};

  void step(Vector& w, const Vector& g, bool adapts, int) {
    buffer.resize(w.size());
    const double b = adapts ? decay : 0;
    const double trust = adapts ? eta * plain_norm(w) / (plain_norm(g) + b * plain_norm(w) + eps) : 1;
    for (std::size_t i = 0; i < w.size(); ++i) {
      buffer[i] = momentum * buffer[i] + rate * trust * (g[i] + b * w[i]);
      w[i] -= buffer[i];
    }
  }
};

struct PlainLamb {
  double rate = 0.01, beta1 = 0.8, beta2 = 0.99, eps = 1e-6, decay = 0.1;
  Vector mean = {}, square = {};

  void step(Vector& w, const Vector& g, bool adapts, int t) {
    mean.resize(w.size());
    square.resize(w.size());
    Vector direction(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      mean[i] = beta1 * mean[i] + (1 - beta1) * g[i];
      square[i] = beta2 * square[i] + (1 - beta2) * g[i] * g[i];
      direction[i] = mean[i] / (1 - std::pow(beta1, t)) / (std::sqrt(square[i] / (1 - std::pow(beta2, t))) + eps);
      if (adapts) direction[i] += decay * w[i];
    }
    const double trust = adapts ? plain_norm(w) / plain_norm(direction) : 1;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * trust * direction[i];
  }
};

template <class Plain>
Parameters train_plain() {
  Parameters parameters = random_parameters(torch::kDouble);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Plain plain;
    Vector w = values_of(parameters[i]);
    for (int step = 0; step < kTrainedSteps; ++step)
      plain.step(w, values_of(gradient_of(parameters[i], step, i)), parameters[i].dim() > 1, step + 1);
    parameters[i] = torch::tensor(w, torch::kDouble).reshape(parameters[i].sizes());
  }
  return parameters;
}

TEST(Lars, FollowsThePaperInBothForms) {
  const auto make = maker<Lars>(LarsOptions(1).weight_decay(0.1).eta(0.01));
  const Parameters expected = train_plain<PlainLars>();
  expect_close(train_stock(make, torch::kDouble), expected, 1e-12, "stock");
  expect_close(train_fused(make, torch::kDouble), expected, 1e-12, "fused");
}

TEST(Lamb, FollowsThePaperInBothForms) {
  const auto make = maker<Lamb>(LambOptions(0.01).betas({0.8, 0.99}).weight_decay(0.1));
  const Parameters expected = train_plain<PlainLamb>();
  expect_close(train_stock(make, torch::kDouble), expected, 1e-12, "stock");
  expect_close(train_fused(make, torch::kDouble), expected, 1e-12, "fused");
}

TEST(TrustRatio, IsOneWhereANormIsZero) {
  EXPECT_EQ(LarsOptions(1).trust_ratio(0, 1), 1);
  EXPECT_EQ(LarsOptions(1).trust_ratio(1, 0), 1);
  EXPECT_EQ(LambOptions::trust_ratio(0, 1), 1);
  EXPECT_EQ(LambOptions::trust_ratio(1, 0), 1);
  EXPECT_DOUBLE_EQ(LarsOptions(1).weight_decay(0.5).eps(0).trust_ratio(2, 3), 0.001 * 2 / 4);
  EXPECT_DOUBLE_EQ(LambOptions::trust_ratio(2, 3), 2.0 / 3);
}

TEST(TrustRatio, OptionsThatCannotBeAreRefused) {
  const Parameters parameters = random_parameters(torch::kFloat);
  EXPECT_THROW(Lars(parameters, LarsOptions(-1)), Error);
  EXPECT_THROW(Lars(parameters, LarsOptions(1).eta(0)), Error);
  EXPECT_THROW(Lars(parameters, LarsOptions(1).momentum(NAN)), Error);
  EXPECT_THROW(Lamb(parameters, LambOptions(1).betas({1, 0.9})), Error);
  EXPECT_THROW(Lamb(parameters, LambOptions(1).eps(-1)), Error);
}

// ---- norms

// Sixteen sums, as square_sum promises on every machine.
double plain_square_sum(const std::vector<float>& values) {
  double sums[16] = {};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % 16] += static_cast<double>(values[i]) * values[i];
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

TEST(SquareSum, HasTheBitsOfSixteenSums) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const std::size_t size : {0, 1, 2, 15, 16, 17, 31, 33, 1000, 4096, 10'007}) {
    std::vector<float> values(size);
    for (float& value : values) value = normal(random);
    EXPECT_EQ(square_sum(values.data(), size), plain_square_sum(values)) << size;
    const std::vector<double> wide(values.begin(), values.end());
    EXPECT_EQ(square_sum(wide.data(), size), plain_square_sum(values)) << size;
  }
}

TEST(TrustRatio, NormsDoNotDependOnTheNumberOfThreads) {
  const torch::Tensor values = random_like({1'000'003}, torch::kFloat, 3);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = norm_of(values);
  for (const int threads : {2, 3, 4}) {
    at::set_num_threads(threads);
    EXPECT_EQ(norm_of(values), alone) << threads;
  }
  at::set_num_threads(before);
  EXPECT_NEAR(alone, values.to(torch::kDouble).norm().item<double>(), 1e-9 * alone);
  EXPECT_NEAR(norm_of(values.to(torch::kBFloat16)), alone, 1e-2 * alone);
  EXPECT_NEAR(norm_of(values.reshape({1'000'003, 1}).expand({-1, 2}).t()), std::sqrt(2) * alone, 1e-9 * alone);
}

// ---- with other ranks

struct WideNetImpl : torch::nn::Module {
  WideNetImpl()
      : first(register_module("first", torch::nn::Linear(6, 401))),
        second(register_module("second", torch::nn::Linear(401, 397))),
        last(register_module("last", torch::nn::Linear(397, 3))) {}
  torch::Tensor forward(torch::Tensor x) { return last(torch::tanh(second(torch::relu(first(x))))); }
  torch::nn::Linear first, second, last;
};
TORCH_MODULE(WideNet);

WideNet make_wide(torch::ScalarType type) {
  WideNet net = make_seeded<WideNet>(1);
  net->to(type);
  return net;
}

torch::Tensor loss_of(WideNet& net, const torch::Tensor& x) { return net(x).pow(2).mean(); }

// Both ranks' batches in one process, one after the other.
Parameters train_alone(const MakeOptimizer& make, torch::ScalarType type) {
  WideNet net = make_wide(type);
  const auto optimizer = make(net->parameters());
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    for (const int rank : {0, 1}) (loss_of(net, inputs(rank, step, type)) / 2).backward();
    optimizer->step();
  }
  return copies(net->parameters());
}

struct Trained {
  Parameters parameters;
  Parameters state;
};

// Ranks with different numbers of threads, which must not matter.
std::vector<Trained> train_together(const MakeOptimizer& make, torch::ScalarType type, DataParallelOptions options) {
  std::vector<Trained> results(2);
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    const int rank = endpoint.rank();
    const int before = at::get_num_threads();
    at::set_num_threads(1 + rank);
    WideNet net = make_wide(type);
    const auto optimizer = make(net->parameters());
    DataParallel parallel(endpoint, Group::world(2), *net, *optimizer, "", options);
    for (int step = 0; step < 5; ++step) {
      optimizer->zero_grad();
      loss_of(net, inputs(rank, step, type)).backward();
      parallel.step();
    }
    Trained& own = results[static_cast<std::size_t>(rank)];
    own.parameters = copies(net->parameters());
    for (const torch::Tensor& parameter : net->parameters()) {
      const auto state = rule_for(*optimizer)->tensors(*optimizer->state().at(key_of(parameter)));
      for (torch::Tensor& tensor : copies(state)) own.state.push_back(std::move(tensor));
    }
    at::set_num_threads(before);
  });
  return results;
}

TEST(FusedOptimizer, ReplicasOfLarsAndLambStayIdenticalAndEqualOneRankWithTheAverage) {
  const std::vector<OptimizerCase> cases = {{"lars", maker<Lars>(LarsOptions(2).weight_decay(0.1))},
                                            {"lamb", maker<Lamb>(LambOptions(0.01).weight_decay(0.1))}};
  const std::vector<DataParallelOptions> ways = {{.bucket_bytes = 3000, .check_every = 1, .share_update = true},
                                                 {.bucket_bytes = 3000, .check_every = 1},
                                                 {.check_every = 1, .fuse = false}};
  for (const OptimizerCase& one : cases) {
    const Parameters alone = train_alone(one.make, torch::kDouble);
    for (const DataParallelOptions& way : ways) {
      const auto narrow = train_together(one.make, torch::kFloat, way);
      EXPECT_TRUE(same_bits(narrow[0].parameters, narrow[1].parameters)) << one.name;
      EXPECT_TRUE(same_bits(narrow[0].state, narrow[1].state)) << one.name;
      const auto wide = train_together(one.make, torch::kDouble, way);
      EXPECT_TRUE(same_bits(wide[0].parameters, wide[1].parameters)) << one.name;
      expect_close(wide[0].parameters, alone, 1e-11, one.name);
    }
  }
}

}  // namespace
}  // namespace paceline
