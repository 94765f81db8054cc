// The ways in which LibTorch gives parameters and gradients other memory than DataParallel's arena, one test each.
#include <sstream>

#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

struct ArenaTraining {
  SmallNet net = make_net();
  torch::optim::SGD sgd{net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
  DataParallel parallel;
  Endpoint& endpoint;

  explicit ArenaTraining(Endpoint& e)
      : parallel(e, Group::world(e.size()), *net, sgd, "", {.check_every = 1}), endpoint(e) {}

  void step(int number) {
    sgd.zero_grad();
    loss_of(net, inputs(endpoint.rank(), number)).backward();
    parallel.step();
  }
};

// Parameters of two ranks after four steps; `disturb` comes between the second and the third.
std::vector<torch::Tensor> trained(const std::function<void(ArenaTraining&)>& disturb) {
  std::vector<torch::Tensor> result;
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    ArenaTraining training(endpoint);
    for (int step = 0; step < 4; ++step) {
      if (step == 2) disturb(training);
      training.step(step);
    }
    if (endpoint.rank() == 1) result = copies(training.net->parameters());
  });
  return result;
}

void do_nothing(ArenaTraining& /*training*/) {}

bool home(const ArenaTraining& training, const void* was) { return training.net->second->weight.data_ptr() == was; }

TEST(LeavingTheArena, ZeroGradKeepsTheAlias) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    ArenaTraining training(endpoint);
    training.step(0);
    training.step(1);
    const void* gradient = training.net->second->weight.grad().data_ptr();
    training.step(2);
    EXPECT_EQ(training.net->second->weight.grad().data_ptr(), gradient);
  });
}

TEST(LeavingTheArena, ZeroGradToNoneComesBack) {
  const auto expected = trained(do_nothing);
  EXPECT_TRUE(same_bits(trained([](ArenaTraining& t) { t.net->zero_grad(true); }), expected));
  EXPECT_TRUE(same_bits(trained([](ArenaTraining& t) {
                          for (auto& parameter : t.net->parameters()) parameter.mutable_grad() = torch::Tensor();
                        }),
                        expected));
}

TEST(LeavingTheArena, ALoadedModuleComesBackWithItsContents) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    ArenaTraining training(endpoint);
    training.step(0);
    training.step(1);
    const void* memory = training.net->second->weight.data_ptr();
    std::stringstream file;
    SmallNet other = make_net(77);
    torch::save(other, file);
    torch::load(training.net, file);
    const torch::Tensor loaded = training.net->second->weight.detach().clone();
    EXPECT_TRUE(torch::equal(loaded, other->second->weight));
    training.sgd.zero_grad();
    loss_of(training.net, inputs(endpoint.rank(), 2)).backward();
    training.parallel.step();  // compares the replicas
    EXPECT_TRUE(home(training, memory));
    EXPECT_FALSE(torch::equal(training.net->second->weight, loaded));
    EXPECT_TRUE(torch::allclose(training.net->second->weight, loaded, 1e-1, 0.5));
  });
}

TEST(LeavingTheArena, AModuleLoadedOnOneRankOnlyIsFoundAtOnce) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.check_every = 1000});
    if (endpoint.rank() == 1) net->last->bias.set_data(torch::ones({3}));
    const std::string sentence = sentence_of([&] {
      for (int step = 0; step < 2; ++step) {
        sgd.zero_grad();
        loss_of(net, inputs(endpoint.rank(), step)).backward();
        parallel.step();
      }
    });
    EXPECT_TRUE(contains(sentence, "rank 1 (host") && contains(sentence, "last.bias")) << sentence;
  });
}

TEST(LeavingTheArena, AChangedTypeIsAnErrorThatNamesTheParameter) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    ArenaTraining training(endpoint);
    training.step(0);
    training.net->to(torch::kDouble);
    const std::string sentence = sentence_of([&] {
      training.sgd.zero_grad();
      loss_of(training.net, inputs(endpoint.rank(), 1, torch::kDouble)).backward();
      training.parallel.step();
    });
    EXPECT_TRUE(contains(sentence, "was Float when DataParallel was made and is Double now")) << sentence;
    EXPECT_TRUE(contains(sentence, ".weight'") || contains(sentence, ".bias'")) << sentence;
    Communicator(endpoint, Group::world(2)).barrier();
  });
}

TEST(LeavingTheArena, CreateGraphComesBack) {
  const auto expected = trained(do_nothing);
  const auto found = trained([](ArenaTraining& t) {
    // A step whose gradients are made differentiable, and then undone: gradients have left, the numbers are as before.
    t.sgd.zero_grad();
    const auto local = t.parallel.no_sync();
    loss_of(t.net, inputs(0, 9)).backward({}, /*retain_graph=*/c10::nullopt, /*create_graph=*/true);
    for (const torch::Tensor& parameter : t.net->parameters()) EXPECT_FALSE(parameter.grad().requires_grad());
  });
  EXPECT_TRUE(same_bits(found, expected));
}

TEST(LeavingTheArena, MovedParametersComeBack) {
  const auto expected = trained(do_nothing);
  EXPECT_TRUE(same_bits(trained([](ArenaTraining& t) {
                          for (auto& p : t.net->parameters()) p.set_data(p.detach().clone());
                        }),
                        expected));
}

TEST(LeavingTheArena, TransposedParametersKeepTheirLayout) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(2, 4, 3));
    conv->weight.set_data(conv->weight.detach().contiguous(torch::MemoryFormat::ChannelsLast));
    torch::optim::Adam adam(conv->parameters(), 0.01);
    DataParallel parallel(endpoint, Group::world(2), *conv, adam, "", {.check_every = 1});
    EXPECT_TRUE(conv->weight.is_contiguous(torch::MemoryFormat::ChannelsLast));
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad();
      conv->forward(torch::rand({1, 2, 5, 5})).pow(2).sum().backward();
      parallel.step();
    }
    EXPECT_TRUE(conv->weight.is_contiguous(torch::MemoryFormat::ChannelsLast));
  });
}

}  // namespace
}  // namespace paceline
