// What the tests of delayed gradients, uneven inputs and of everything together share: one training with all that can
// be asked of a DataParallel, and a reference that does the same in one process, by a plain loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/exchange/plan.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {

// Words, a trunk, and two heads of which the second takes part only when asked to.
struct ScenarioNetImpl : torch::nn::Module {
  explicit ScenarioNetImpl(bool sparse)
      : trunk(register_module("trunk", torch::nn::Linear(10, 8))),
        words(register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 4).sparse(sparse)))),
        right(register_module("right", torch::nn::Linear(8, 1))),
        left(register_module("left", torch::nn::Linear(8, 1))) {}
  torch::Tensor forward(torch::Tensor x, bool use_right) {
    const torch::Tensor ids = (x.select(1, 0) * 20).floor().to(torch::kLong);
    const torch::Tensor hidden = torch::tanh(trunk(torch::cat({x, words(ids)}, 1)));
    return (use_right ? left(hidden) + right(hidden) : left(hidden)).squeeze(1);
  }
  torch::nn::Linear trunk;
  torch::nn::Embedding words;
  torch::nn::Linear right, left;
};
TORCH_MODULE(ScenarioNet);

struct Scenario {
  int ranks = 2;
  std::string plan = "";
  std::string optimizer = "sgd";       // or momentum, adam
  int steps = 9;                       // of each rank
  std::vector<int> batches = {};       // instead: of each rank its own number
  std::vector<int> drain_before = {};  // these steps
  bool accumulate = false;             // each batch in two parts
  double clip = 0;
  bool unused = false;  // the right head takes part in some steps on some ranks, in some on none
  bool sparse = false;
  bool fuse = true;
  bool share = false;
  bool divide_by_active = true;
  std::size_t bucket_bytes = 300;
  std::int64_t local_after = 0;
  MixChoices mixing = {};
  BetweenSites between_sites = {};
  std::function<void(int, const RankBody&)> run = run_shm_ranks;

  int batches_of(int rank) const { return batches.empty() ? steps : batches[static_cast<std::size_t>(rank)]; }
  bool uneven() const { return !batches.empty(); }
  bool drains_before(int step) const {
    return std::find(drain_before.begin(), drain_before.end(), step) != drain_before.end();
  }
  bool uses_right(int rank, int step) const { return !unused || (rank + step) % 4 == 0; }
};

using ScenarioParameters = std::vector<torch::Tensor>;

inline std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Scenario& s, ScenarioParameters parameters) {
  using namespace torch::optim;
  if (s.optimizer == "adam") return std::make_unique<Adam>(parameters, AdamOptions(0.01).weight_decay(0.01));
  if (s.optimizer == "momentum")
    return std::make_unique<SGD>(parameters, SGDOptions(0.003).momentum(0.9).weight_decay(1e-3));
  return std::make_unique<SGD>(parameters, SGDOptions(0.04));
}

// The parts of rank r's batch of step s, each with its loss.
inline std::vector<torch::Tensor> losses_of(const Scenario& s, ScenarioNet& net, int rank, int step) {
  std::vector<torch::Tensor> losses;
  const int parts = s.accumulate ? 2 : 1;
  for (const torch::Tensor& x : inputs(rank, step).chunk(parts)) {
    const torch::Tensor wanted = x.sum(1) - 2 * x.select(1, 0);
    losses.push_back((net(x, s.uses_right(rank, step)) - wanted).pow(2).mean() / parts);
  }
  return losses;
}

struct ScenarioResult {
  ScenarioParameters parameters;
  double first_loss = 0, last_loss = 0;  // on the same examples, before and after
};

inline double evaluate(const Scenario& s, ScenarioNet& net) {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  for (int step = 1000; step < 1004; ++step) sum += losses_of(s, net, 0, step)[0].item<double>();
  return sum;
}

// Trains, and gives what every rank has then.
inline std::vector<ScenarioResult> train_scenario(const Scenario& s) {
  std::vector<ScenarioResult> results(static_cast<std::size_t>(s.ranks));
  s.run(s.ranks, [&](Endpoint& endpoint) {
    ScenarioNet net = make_seeded<ScenarioNet>(1, s.sparse);
    auto optimizer = optimizer_of(s, net->parameters());
    DataParallel parallel(endpoint, Group::world(s.ranks), *net, *optimizer, s.plan,
                          {.bucket_bytes = s.bucket_bytes,
                           .check_every = 3,
                           .fuse = s.fuse,
                           .share_update = s.share,
                           .divide_by_active = s.divide_by_active,
                           .local_after = s.local_after,
                           .mixing = s.mixing,
                           .between_sites = s.between_sites});
    ScenarioResult& result = results[static_cast<std::size_t>(endpoint.rank())];
    result.first_loss = evaluate(s, net);
    std::function<void()> between;
    if (s.clip > 0) between = [&] { parallel.clip_grad_norm(s.clip); };
    for (int step = 0; step < s.batches_of(endpoint.rank()); ++step) {
      if (s.drains_before(step)) parallel.drain(between);
      net->zero_grad(step % 2 == 1);
      const auto losses = losses_of(s, net, endpoint.rank(), step);
      for (std::size_t i = 0; i < losses.size(); ++i) {
        std::optional<DataParallel::NoSync> local;
        if (i + 1 < losses.size()) local.emplace(parallel);
        losses[i].backward();
      }
      if (between) between();
      parallel.step();
    }
    s.uneven() ? parallel.join(between) : parallel.drain(between);
    parallel.check_replicas();
    result.last_loss = evaluate(s, net);
    result.parameters = copies(net->parameters());
  });
  return results;
}

// ---- the reference

// The average over the ranks that have a batch of this step; none for parameters that took part nowhere.
inline ScenarioParameters average_gradient(const Scenario& s, ScenarioNet& net, int step) {
  ScenarioParameters sums(net->parameters().size());
  int active = 0;
  for (int rank = 0; rank < s.ranks; ++rank) {
    if (step >= s.batches_of(rank)) continue;
    ++active;
    ScenarioParameters own(sums.size());
    for (const torch::Tensor& loss : losses_of(s, net, rank, step)) {
      const auto part = torch::autograd::grad({loss}, net->parameters(), {}, c10::nullopt, false, true);
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (part[i].defined()) own[i] = own[i].defined() ? own[i] + part[i] : part[i];
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (own[i].defined()) sums[i] = sums[i].defined() ? sums[i] + own[i] : own[i];
    }
  }
  for (torch::Tensor& sum : sums) {
    if (sum.defined()) sum = sum / (s.divide_by_active ? active : s.ranks);
  }
  return sums;
}

inline void clip_naively(ScenarioParameters& gradient, double most) {
  double square = 0;
  for (const torch::Tensor& part : gradient) {
    if (part.defined()) square += part.to(torch::kDouble).pow(2).sum().item<double>();
  }
  if (std::sqrt(square) <= most) return;
  for (torch::Tensor& part : gradient) {
    if (part.defined()) part.mul_(most / (std::sqrt(square) + 1e-6));
  }
}

// A loop that keeps each gradient for as many steps as the plan says, then applies it. With `fuse` by a lone rank's
// DataParallel, whose fused optimizers may differ from the stock ones in the last bit.
inline ScenarioParameters reference_of(const Scenario& s) {
  ScenarioParameters result;
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    ScenarioNet net = make_seeded<ScenarioNet>(1, false);
    auto optimizer = optimizer_of(s, net->parameters());
    std::optional<DataParallel> fused;
    if (s.fuse) fused.emplace(endpoint, Group::world(1), *net, *optimizer);
    std::deque<ScenarioParameters> late;
    const auto apply_until = [&](std::size_t left) {
      for (; late.size() > left; late.pop_front()) {
        if (s.clip > 0) clip_naively(late.front(), s.clip);
        for (std::size_t i = 0; i < net->parameters().size(); ++i)
          net->parameters()[i].mutable_grad() = late.front()[i];
        fused ? fused->step() : static_cast<void>(optimizer->step());
      }
    };
    int steps = 0;
    for (int rank = 0; rank < s.ranks; ++rank) steps = std::max(steps, s.batches_of(rank));
    for (int step = 0; step < steps; ++step) {
      if (s.drains_before(step)) apply_until(0);
      late.push_back(average_gradient(s, net, step));
      apply_until(static_cast<std::size_t>(parse_plan(s.plan).delay()));
    }
    apply_until(0);
    result = copies(net->parameters());
  });
  return result;
}

inline bool close(const ScenarioParameters& a, const ScenarioParameters& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!torch::allclose(a[i], b[i], 1e-4, 1e-5)) return false;
  }
  return a.size() == b.size();
}

}  // namespace paceline
