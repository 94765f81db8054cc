// What DataParallel does beside averaging: accumulation, clipping, unused, frozen, tied and sparse parameters, several
// models, mixed types; and what it refuses.
#include <atomic>

#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

// A net whose second branch takes part only when asked to.
struct BranchesImpl : torch::nn::Module {
  BranchesImpl()
      : trunk(register_module("trunk", torch::nn::Linear(6, 8))),
        left(register_module("left", torch::nn::Linear(8, 2))),
        right(register_module("right", torch::nn::Linear(8, 2))) {}
  torch::Tensor forward(torch::Tensor x, bool use_right) {
    const torch::Tensor hidden = torch::relu(trunk(x));
    return use_right ? left(hidden) + right(hidden) : left(hidden);
  }
  torch::nn::Linear trunk, left, right;
};
TORCH_MODULE(Branches);

torch::optim::SGDOptions momentum() { return torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01); }

TEST(DataParallel, AccumulatesUnderNoSync) {
  std::vector<std::vector<torch::Tensor>> found(2);
  for (const int parts : {1, 4}) {
    run_shm_ranks(2, [&](Endpoint& endpoint) {
      SmallNet net = make_net();
      torch::optim::SGD sgd(net->parameters(), momentum());
      DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.bucket_bytes = 100});
      for (int step = 0; step < 3; ++step) {
        sgd.zero_grad();
        const auto batches = inputs(endpoint.rank(), step).chunk(parts);
        for (std::size_t i = 0; i + 1 < batches.size(); ++i) {
          const auto local = parallel.no_sync();
          (net(batches[i]).pow(2).mean() / parts).backward();
        }
        (net(batches.back()).pow(2).mean() / parts).backward();
        parallel.step();
      }
      if (endpoint.rank() == 1) found[parts == 1 ? 0 : 1] = copies(net->parameters());
    });
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(torch::allclose(found[0][i], found[1][i], 1e-4, 1e-6));
}

TEST(DataParallel, GradientsOfNoSyncTravelAlsoIfTheLastBackwardLeavesThemOut) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    Branches net = make_seeded<Branches>(1);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.check_every = 1});
    {
      const auto local = parallel.no_sync();
      net(inputs(endpoint.rank(), 0), true).sum().backward();
    }
    net(inputs(endpoint.rank(), 1), false).sum().backward();
    parallel.step();  // compares the replicas
    EXPECT_GT(net->right->weight.grad().abs().max().item<float>(), 0);
  });
}

TEST(DataParallel, ClipsByTheGlobalNorm) {
  run_shm_ranks(3, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(3), *net, sgd);
    (1000 * loss_of(net, inputs(endpoint.rank(), 0))).backward();
    const double before = parallel.clip_grad_norm(0.5);
    EXPECT_GT(before, 0.5);
    double square = 0;
    for (const torch::Tensor& parameter : net->parameters()) square += parameter.grad().pow(2).sum().item<double>();
    EXPECT_NEAR(std::sqrt(square), 0.5, 1e-4);
    EXPECT_NEAR(parallel.clip_grad_norm(7.0), 0.5, 1e-4);  // small enough: left as it is
    parallel.step();
    parallel.check_replicas();
  });
}

TEST(DataParallel, AParameterUnusedEverywhereIsLeftAlone) {
  for (const bool fuse : {true, false}) {
    run_shm_ranks(2, [&](Endpoint& endpoint) {
      Branches net = make_seeded<Branches>(1);
      torch::optim::SGD sgd(net->parameters(), momentum());
      DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.fuse = fuse});
      const torch::Tensor before = net->right->weight.detach().clone();
      const torch::Tensor left_before = net->left->weight.detach().clone();
      for (int step = 0; step < 3; ++step) {
        sgd.zero_grad();
        net(inputs(endpoint.rank(), step), false).sum().backward();
        parallel.step();
      }
      EXPECT_TRUE(torch::equal(net->right->weight, before));  // weight decay would have changed it
      EXPECT_FALSE(torch::equal(net->left->weight, left_before));
      EXPECT_TRUE(net->right->weight.grad().defined());
    });
  }
}

TEST(DataParallel, AParameterUsedSomewhereIsAveragedWithZeros) {
  run_shm_ranks(4, [&](Endpoint& endpoint) {
    Branches net = make_seeded<Branches>(1);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(4), *net, sgd, "", {.bucket_bytes = 1, .check_every = 1});
    sgd.zero_grad();
    const torch::Tensor x = inputs(2, 0);
    net(x, endpoint.rank() == 2).sum().backward();
    parallel.finish();
    // d sum / d bias = 8 on rank 2 alone, over 4 ranks.
    EXPECT_TRUE(torch::allclose(net->right->bias.grad(), torch::full({2}, 2.0)));
    parallel.step();
  });
}

TEST(DataParallel, AWorkerWithoutABatchTakesPart) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::Adam adam(net->parameters(), 0.01);
    DataParallel parallel(endpoint, Group::world(2), *net, adam, "", {.check_every = 1});
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad();
      if (endpoint.rank() == 0 || step == 1) loss_of(net, inputs(endpoint.rank(), step)).backward();
      parallel.step();
    }
  });
}

TEST(DataParallel, FrozenParametersStayAndAreRankZeros) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net(1 + static_cast<std::uint64_t>(endpoint.rank()));
    net->first->weight.set_requires_grad(false);
    torch::optim::SGD sgd(net->parameters(), momentum());
    DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.check_every = 1});
    const torch::Tensor before = net->first->weight.detach().clone();
    for (int step = 0; step < 2; ++step) {
      sgd.zero_grad();
      loss_of(net, inputs(endpoint.rank(), step)).backward();
      parallel.step();
    }
    EXPECT_TRUE(torch::equal(net->first->weight, before));
    EXPECT_TRUE(torch::equal(before, make_net(1)->first->weight));
  });
}

TEST(DataParallel, UnfreezingLaterIsAnErrorThatNamesTheParameter) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    net->first->weight.set_requires_grad(false);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(1), *net, sgd);
    net->first->weight.set_requires_grad(true);
    loss_of(net, inputs(0, 0)).backward();
    EXPECT_TRUE(contains(sentence_of([&] { parallel.step(); }), "'first.weight' was frozen"));
  });
}

struct TiedImpl : torch::nn::Module {
  TiedImpl()
      : in(register_module("in", torch::nn::Linear(6, 6))), out(register_module("out", torch::nn::Linear(6, 6))) {
    out->weight = out->register_parameter("shared", in->weight);
  }
  torch::Tensor forward(torch::Tensor x) { return out(torch::relu(in(x))); }
  torch::nn::Linear in, out;
};
TORCH_MODULE(Tied);

TEST(DataParallel, TiedParametersAreOne) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    Tied net = make_seeded<Tied>(1);
    std::vector<torch::Tensor> parameters = {net->in->weight, net->in->bias, net->out->bias};
    torch::optim::SGD sgd(parameters, momentum());
    DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.bucket_bytes = 1, .check_every = 1});
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      net(inputs(endpoint.rank(), step)).pow(2).mean().backward();
      parallel.step();
    }
    EXPECT_EQ(net->in->weight.data_ptr(), net->out->weight.data_ptr());
  });
}

TEST(DataParallel, SeveralModelsLiveInOneProgram) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet actor = make_net(1), critic = make_net(2);
    torch::optim::SGD slow(actor->parameters(), 0.01);
    torch::optim::Adam quick(critic->parameters(), 0.01);
    DataParallel first(endpoint, Group::world(2), *actor, slow, "", {.check_every = 1});
    DataParallel second(endpoint, Group::world(2), *critic, quick, "", {.check_every = 1});
    Communicator world(endpoint, Group::world(2));
    for (int step = 0; step < 3; ++step) {
      slow.zero_grad();
      quick.zero_grad();
      const torch::Tensor x = inputs(endpoint.rank(), step);
      const torch::Tensor a = loss_of(actor, x);
      const torch::Tensor b = loss_of(critic, x);
      // The ranks' backwards interleave differently; the program's own operations stand between.
      (endpoint.rank() == 0 ? a : b).backward();
      world.barrier();
      (endpoint.rank() == 0 ? b : a).backward();
      first.step();
      second.step();
    }
  });
}

struct MixedImpl : torch::nn::Module {
  MixedImpl() : single(register_module("single", torch::nn::Linear(6, 4))) {
    wide = register_parameter("wide", torch::ones({4, 2}, torch::kDouble));
    brain = register_parameter("brain", torch::ones({2}, torch::kBFloat16));
  }
  torch::Tensor forward(torch::Tensor x) {
    return (single(x).to(torch::kDouble).matmul(wide) * brain.to(torch::kDouble)).pow(2).mean();
  }
  torch::nn::Linear single;
  torch::Tensor wide, brain;
};
TORCH_MODULE(Mixed);

TEST(DataParallel, MixedTypesHaveAnArenaEach) {
  for (const bool fuse : {true, false}) {
    run_shm_ranks(2, [&](Endpoint& endpoint) {
      Mixed net = make_seeded<Mixed>(1);
      torch::optim::SGD sgd(net->parameters(), momentum());
      DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.check_every = 1, .fuse = fuse});
      EXPECT_EQ(parallel.buckets(), 3u);
      double loss = 0, first = 0;
      for (int step = 0; step < 10; ++step) {
        sgd.zero_grad();
        torch::Tensor out = net(inputs(endpoint.rank(), 0));
        out.backward();
        parallel.step();
        loss = out.item<double>();
        if (step == 0) first = loss;
      }
      EXPECT_LT(loss, first);
    });
  }
}

struct WordsImpl : torch::nn::Module {
  explicit WordsImpl(bool sparse)
      : words(register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 4).sparse(sparse)))),
        head(register_module("head", torch::nn::Linear(4, 1))) {}
  torch::Tensor forward(torch::Tensor ids) { return head(words(ids)).pow(2).mean(); }
  torch::nn::Embedding words;
  torch::nn::Linear head;
};
TORCH_MODULE(Words);

TEST(DataParallel, SparseGradientsStaySparseAndAreAveraged) {
  std::vector<std::vector<torch::Tensor>> found(2);
  for (const bool sparse : {false, true}) {
    run_shm_ranks(3, [&](Endpoint& endpoint) {
      Words net = make_seeded<Words>(1, sparse);
      torch::optim::SGD sgd(net->parameters(), 0.5);
      DataParallel parallel(endpoint, Group::world(3), *net, sgd, "", {.check_every = 1});
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        const torch::Tensor ids = torch::tensor({endpoint.rank(), 5, step, step + 10}, torch::kLong);
        if (endpoint.rank() != 1 || step != 1) net(ids).backward();
        parallel.finish();
        EXPECT_EQ(net->words->weight.grad().is_sparse(), sparse);
        parallel.step();
      }
      if (endpoint.rank() == 2) found[sparse ? 1 : 0] = copies(net->parameters());
    });
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(torch::allclose(found[0][i], found[1][i], 1e-5, 1e-7));
}

// ---- what is refused

TEST(DataParallel, ASecondBackwardWithoutNoSyncIsAnError) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(2), *net, sgd);
    loss_of(net, inputs(endpoint.rank(), 0)).backward();
    const std::string sentence = sentence_of([&] { loss_of(net, inputs(endpoint.rank(), 1)).backward(); });
    EXPECT_TRUE(contains(sentence, "a second time in step 1")) << sentence;
    EXPECT_TRUE(contains(sentence, "no_sync()")) << sentence;
    Communicator(endpoint, Group::world(2)).barrier();  // leave together, so that each sees its own error
  });
}

TEST(DataParallel, TwoLossesInOneStepWork) {
  std::vector<std::vector<torch::Tensor>> found(3);
  for (const int way : {0, 1, 2}) {
    run_shm_ranks(2, [&](Endpoint& endpoint) {
      Branches net = make_seeded<Branches>(1);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.check_every = 1});
      for (int step = 0; step < 2; ++step) {
        sgd.zero_grad();
        const torch::Tensor a = net->left(inputs(endpoint.rank(), step).mean() * torch::ones({1, 8})).sum();
        const torch::Tensor b = net->right(inputs(endpoint.rank(), step).std() * torch::ones({1, 8})).sum();
        if (way == 0) (a + b).backward();
        if (way == 1) {  // disjoint parameters
          a.backward();
          b.backward();
        }
        if (way == 2) {
          const auto local = parallel.no_sync();
          a.backward();
        }
        if (way == 2) b.backward();
        parallel.step();
      }
      if (endpoint.rank() == 0) found[static_cast<std::size_t>(way)] = copies(net->parameters());
    });
  }
  EXPECT_TRUE(same_bits(found[0], found[1]));
  EXPECT_TRUE(same_bits(found[0], found[2]));
}

TEST(DataParallel, DifferentModelsAreAnErrorThatNamesTheFirstDifference) {
  std::atomic<int> told = 0;
  run_shm_ranks(3, [&](Endpoint& endpoint) {
    torch::nn::Sequential net(torch::nn::Linear(4, 5), torch::nn::Linear(5, endpoint.rank() == 2 ? 7 : 6));
    torch::optim::SGD sgd(net->parameters(), 0.1);
    const std::string sentence = sentence_of([&] { DataParallel(endpoint, Group::world(3), *net, sgd); });
    if (contains(sentence, "has parameter '1.weight' Float [6, 5]") && contains(sentence, "rank 2") &&
        contains(sentence, "has parameter '1.weight' Float [7, 5]"))
      ++told;
  });
  EXPECT_EQ(told, 3);
}

TEST(DataParallel, AnOptimizerOfOtherTensorsIsRefused) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    SmallNet net = make_net(), other = make_net();
    torch::optim::SGD sgd(other->parameters(), 0.1);
    EXPECT_TRUE(contains(sentence_of([&] { DataParallel(endpoint, Group::world(1), *net, sgd); }),
                         "is not a parameter of the model"));
  });
}

TEST(DataParallel, ABadPlanIsRefused) {
  run_shm_ranks(1, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    EXPECT_TRUE(
        contains(sentence_of([&] { DataParallel(endpoint, Group::world(1), *net, sgd, "where=rign"); }), "ring"));
  });
}

// ---- what is watched

void drift(int ranks, double momentum_factor, const std::string& expected) {
  std::atomic<int> told = 0;
  run_shm_ranks(ranks, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(momentum_factor));
    DataParallel parallel(endpoint, Group::world(ranks), *net, sgd, "", {.check_every = 4});
    const std::string sentence = sentence_of([&] {
      for (int step = 0; step < 10; ++step) {
        if (step == 2 && endpoint.rank() == 1) {
          const torch::NoGradGuard no_grad;
          net->second->bias[3] += 1e-3;
        }
        sgd.zero_grad();
        loss_of(net, inputs(endpoint.rank(), step)).backward();
        parallel.step();
      }
    });
    if (contains(sentence, "rank 1 (host") && contains(sentence, expected)) ++told;
    EXPECT_NE(sentence, "");
  });
  EXPECT_EQ(told, ranks);
}

TEST(DataParallel, ADriftedReplicaStopsTheJobWithRankAndLayer) {
  for (const int ranks : {2, 3, 4}) {
    drift(ranks, 0.9, "after step 4 parameter 'second.bias' of rank 1");  // found by the comparison every four steps
    drift(ranks, 0, "step 3: its parameter second.bias has drifted");     // found when it is to be written over
  }
}

TEST(DataParallel, ANonFiniteGradientIsNamedByRankLayerAndStepOnEveryRank) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    std::atomic<int> told = 0;
    run_shm_ranks(3, [&](Endpoint& endpoint) {
      SmallNet net = make_net();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      DataParallel parallel(endpoint, Group::world(3), *net, sgd);
      const std::string sentence = sentence_of([&] {
        for (int step = 0; step < 10; ++step) {
          sgd.zero_grad();
          torch::Tensor loss = loss_of(net, inputs(endpoint.rank(), step));
          if (step == 4 && endpoint.rank() == 2) loss = loss + bad * net->second->weight.sum();
          loss.backward();
          parallel.step();
        }
      });
      if (contains(sentence, "rank 2") && contains(sentence, "step 5: NaN or Inf in the gradient of second.weight"))
        ++told;
      for (const torch::Tensor& p : net->parameters()) EXPECT_TRUE(p.isfinite().all().item<bool>());  // not spread
    });
    EXPECT_EQ(told, 3);
  }
}

TEST(DataParallel, TheFirstBucketLeavesWhileBackwardGoesOn) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    torch::manual_seed(1);
    torch::nn::Sequential net;
    for (int i = 0; i < 8; ++i) net->push_back(torch::nn::Linear(64, 64));
    torch::optim::SGD sgd(net->parameters(), 0.01);
    Trace trace(10'000);
    DataParallel parallel(endpoint, Group::world(2), *net, sgd, "", {.bucket_bytes = 1000, .trace = &trace});
    std::vector<TimePoint> backward_ended;
    for (int step = 0; step < 5; ++step) {
      sgd.zero_grad();
      net->forward(torch::rand({8, 64})).pow(2).mean().backward();
      backward_ended.push_back(endpoint.clock().now());
      parallel.step();
    }
    int first_buckets = 0;
    for (const TraceEvent& event : trace.events()) {
      if (event.activity != Activity::reduction || event.bucket != 0) continue;
      ++first_buckets;
      EXPECT_LT(event.start, backward_ended[static_cast<std::size_t>(event.step)]) << "in step " << event.step;
    }
    EXPECT_EQ(first_buckets, 5);
    EXPECT_GT(parallel.buckets(), 4u);
    EXPECT_GT(parallel.times().communicate.count(), 0);
    EXPECT_GT(parallel.times().update.count(), 0);
  });
}

TEST(DataParallel, BuffersAreSyncedWhenAsked) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    torch::nn::BatchNorm1d norm(6);
    torch::optim::SGD sgd(norm->parameters(), 0.1);
    DataParallel parallel(endpoint, Group::world(2), *norm, sgd);
    norm->forward(inputs(endpoint.rank(), 0)).sum().backward();
    const torch::Tensor own = norm->running_mean.clone();
    parallel.step();
    parallel.sync_buffers();
    torch::Tensor mean = own;
    allreduce(parallel.communicator(), mean, ReduceOp::average);
    EXPECT_TRUE(torch::equal(norm->running_mean, mean));
  });
}

TEST(DataParallel, TheModelLivesOnWithoutIt) {
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    SmallNet net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    {
      DataParallel parallel(endpoint, Group::world(2), *net, sgd);
      loss_of(net, inputs(endpoint.rank(), 0)).backward();
      parallel.step();
    }
    sgd.zero_grad();
    loss_of(net, inputs(endpoint.rank(), 1)).backward();  // no hooks any more
    sgd.step();
    EXPECT_TRUE(net->first->weight.isfinite().all().item<bool>());
  });
}

}  // namespace
}  // namespace paceline
