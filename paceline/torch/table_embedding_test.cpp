#include "paceline/torch/table_embedding.hpp"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <mutex>

#include "paceline/core/random.hpp"
#include "paceline/server/row_initializer.hpp"
#include "paceline/server/server_test_support.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

using server_test::run_job;
using server_test::TestJob;

const std::vector<std::string> kServerPolicies = {"bsp", "ssp:0", "ssp:2", "essp:1", "async", "softsync:1"};
constexpr std::int64_t kFields = 3;
constexpr int kWidth = 4;

TableSpec spec_of(const std::string& rule) {
  return {.name = "rows", .width = kWidth, .rule = rule, .init = "normal:0.5", .seed = 7};
}

// Few enough that a batch has keys twice, and batches have keys in common; one is above all signed numbers.
torch::Tensor keys_of(int worker, int step) {
  Random random(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(worker));
  torch::Tensor keys = torch::empty({5, kFields}, torch::kLong);
  std::int64_t* key = keys.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < keys.numel(); ++i) key[i] = static_cast<std::int64_t>(random.below(12)) - 1;
  return keys;
}

// Depends on the rows, so that a row that is read too old shows.
torch::Tensor loss_of_rows(const torch::Tensor& rows) { return (rows.pow(2) + rows.cos()).mean(); }

struct Training {
  TestJob job;
  std::string rule = "sgd:0.5";
  int steps = 8;
  bool prefetches = false;
};

// A training's rows of all keys, as each worker reads them at the end.
std::vector<torch::Tensor> trained_rows(const Training& t) {
  std::vector<torch::Tensor> found(static_cast<std::size_t>(t.job.workers));
  run_job(t.job, [&](Session& session, Endpoint& endpoint) {
    TableEmbedding embedding(session, spec_of(t.rule));
    for (int step = 0; step < t.steps; ++step) {
      const torch::Tensor loss = loss_of_rows(embedding.forward(keys_of(endpoint.rank(), step)));
      if (t.prefetches) embedding.prefetch(keys_of(endpoint.rank(), step + 1));
      loss.backward();
      session.clock();
    }
    embedding.flush();
    const torch::NoGradGuard no_grad;
    found[static_cast<std::size_t>(endpoint.rank())] = embedding.forward(torch::arange(-1, 11));
  });
  return found;
}

// The same as one table in one process: the loss is the mean over the workers.
torch::Tensor reference_rows(const Training& t) {
  torch::Tensor rows = torch::empty({12, kWidth});
  for (std::int64_t i = 0; i < 12; ++i)
    parse_initializer("normal:0.5", 7).fill(static_cast<std::uint64_t>(i - 1), {rows[i].data_ptr<float>(), kWidth});
  rows.requires_grad_(true);
  torch::optim::SGD sgd({rows}, 0.5);
  torch::optim::Adagrad adagrad({rows}, torch::optim::AdagradOptions(0.5));
  for (int step = 0; step < t.steps; ++step) {
    sgd.zero_grad();
    for (int worker = 0; worker < t.job.workers; ++worker) {
      const torch::Tensor of_batch = rows.index_select(0, keys_of(worker, step).flatten() + 1);
      (loss_of_rows(of_batch) / t.job.workers).backward();
    }
    t.rule.starts_with("sgd") ? sgd.step() : adagrad.step();
  }
  return rows.detach();
}

TEST(TableEmbedding, RowsThatNobodyHasTrainedAreTheSameOnEveryWorker) {
  run_job({.workers = 2, .servers = 2}, [](Session& session, Endpoint&) {
    TableEmbedding embedding(session, spec_of("sgd:1"));
    const torch::Tensor keys =
        torch::tensor({std::int64_t{5}, std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}});
    const torch::Tensor rows = embedding.forward(keys);
    ASSERT_EQ(rows.sizes(), (std::vector<std::int64_t>{3, kWidth}));
    for (std::int64_t i = 0; i < 3; ++i) {
      std::vector<float> expected(kWidth);
      parse_initializer("normal:0.5", 7).fill(static_cast<std::uint64_t>(keys[i].item<std::int64_t>()), expected);
      EXPECT_TRUE(torch::equal(rows[i].detach(), torch::tensor(expected)));
    }
  });
}

TEST(TableEmbedding, OneWorkerTrainsAsATableInItsOwnMemoryUnderEveryPolicy) {
  for (const std::string& policy : kServerPolicies) {
    for (const std::string rule : {"sgd:0.5", "adagrad:0.5"}) {
      for (const bool prefetches : {false, true}) {
        const Training training{
            .job = {.servers = 2, .policy = parse_policy(policy)}, .rule = rule, .prefetches = prefetches};
        const torch::Tensor found = trained_rows(training)[0];
        EXPECT_TRUE(torch::allclose(found, reference_rows(training), 1e-4, 1e-5)) << policy << rule << prefetches;
      }
    }
  }
}

TEST(TableEmbedding, UnderBspAllWorkersTrainOneModel) {
  for (const std::string rule : {"sgd:0.5", "adagrad:0.5"}) {
    Training training{.job = {.workers = 3, .servers = 2}, .rule = rule};
    const auto plain = trained_rows(training);
    training.prefetches = true;
    const auto prefetched = trained_rows(training);
    for (std::size_t worker = 0; worker < plain.size(); ++worker) {
      EXPECT_TRUE(torch::equal(plain[worker], plain[0])) << rule;
      EXPECT_TRUE(torch::equal(prefetched[worker], plain[0])) << rule;
    }
    EXPECT_TRUE(torch::allclose(plain[0], reference_rows(training), 1e-4, 1e-5)) << rule;
  }
}

// Adding up in whatever order: with a loss that is linear in the rows every gradient is known beforehand.
TEST(TableEmbedding, EveryWorkersGradientArrivesOnceAndCountsAsThePolicySays) {
  const std::map<std::string, float> parts = {
      {"bsp", 1.0F / 3}, {"ssp:2", 1.0F / 3}, {"async", 1}, {"softsync:3", 1.0F / 3}};
  for (const auto& [policy, part] : parts) {
    run_job({.workers = 3, .servers = 2, .policy = parse_policy(policy)}, [&](Session& session, Endpoint&) {
      TableEmbedding embedding(session, {.name = "rows", .width = 1, .rule = "sgd:1"});
      const torch::Tensor keys = torch::tensor({{1, 2, 2}}, torch::kLong);
      for (int step = 0; step < 6; ++step) {
        const torch::Tensor rows = embedding.forward(keys);
        embedding.prefetch(keys);
        (-rows.sum()).backward();
        session.clock();
      }
      embedding.flush();
      const torch::NoGradGuard no_grad;
      torch::Tensor rows = embedding.forward(keys).flatten();
      while (rows[0].item<float>() < 18 * part - 1e-3F) rows = embedding.forward(keys).flatten();  // others are slower
      EXPECT_NEAR(rows[0].item<float>(), 18 * part, 1e-3) << policy;
      EXPECT_NEAR(rows[1].item<float>(), 36 * part, 1e-3) << policy;
    });
  }
}

TEST(TableEmbedding, WhatIsPrefetchedIsUsedAndReadAgainWhereThisWorkerHasChangedIt) {
  run_job({.policy = parse_policy("async")}, [](Session& session, Endpoint&) {
    TableEmbedding embedding(session, spec_of("sgd:1"));
    const torch::Tensor rows = embedding.forward(torch::tensor({1, 2, 3}, torch::kLong));
    embedding.prefetch(torch::tensor({3, 4, 4}, torch::kLong));
    rows.sum().backward();
    session.clock();
    const torch::Tensor next = embedding.forward(torch::tensor({3, 4, 4}, torch::kLong));
    EXPECT_EQ(embedding.counters().rows_read, 5U);
    EXPECT_EQ(embedding.counters().rows_prefetched, 2U);
    EXPECT_EQ(embedding.counters().rows_read_again, 1U);
    EXPECT_TRUE(torch::allclose(next[0].detach(), rows[2].detach() - 1));
  });
}

TEST(TableEmbedding, APrefetchHoldsUpNeitherOtherKeysNorAStepThatDoesNotEnd) {
  for (const std::string& policy : kServerPolicies) {
    run_job({.policy = parse_policy(policy)}, [&](Session& session, Endpoint&) {
      TableEmbedding embedding(session, spec_of("sgd:1"));
      const torch::Tensor keys = torch::tensor({1, 2}, torch::kLong);
      const torch::NoGradGuard no_grad;
      const torch::Tensor before = embedding.forward(keys);
      embedding.prefetch(keys);
      EXPECT_TRUE(torch::equal(embedding.forward(keys), before)) << policy;  // the step has not ended
      embedding.prefetch(keys);
      EXPECT_EQ(embedding.forward(torch::tensor({9}, torch::kLong)).size(0), 1) << policy;
      session.clock();
      EXPECT_TRUE(torch::equal(embedding.forward(keys), before)) << policy;
    });
  }
}

TEST(TableEmbedding, ABatchMayBeEmpty) {
  run_job({}, [](Session& session, Endpoint&) {
    TableEmbedding embedding(session, spec_of("sgd:1"));
    embedding.prefetch(torch::empty({0, kFields}, torch::kLong));
    session.clock();
    EXPECT_EQ(embedding.forward(torch::empty({0, kFields}, torch::kLong)).sizes(),
              (std::vector<std::int64_t>{0, kFields, kWidth}));
  });
}

TEST(TableEmbedding, RowsThatDoNotFitTheBudgetAreRefusedAndTheOthersStay) {
  run_job({.policy = parse_policy("async")}, [](Session& session, Endpoint&) {
    TableSpec spec = spec_of("adagrad:0.1");
    spec.budget_bytes = 1 << 20;
    TableEmbedding embedding(session, spec);
    const auto train = [&](std::int64_t first) {
      embedding.forward(torch::arange(first, first + 1000)).sum().backward();
      session.clock();
      embedding.flush();
    };
    train(0);
    const torch::Tensor trained = embedding.forward(torch::arange(0, 1000)).detach();
    std::string sentence;
    for (std::int64_t first = 1000; first < 200'000 && sentence.empty(); first += 1000)
      sentence = sentence_of([&] { train(first); });
    EXPECT_TRUE(contains(sentence, "push of table 'rows' refused by server 0")) << sentence;
    EXPECT_TRUE(contains(sentence, "no room for new rows")) << sentence;
    EXPECT_TRUE(torch::equal(embedding.forward(torch::arange(0, 1000)).detach(), trained));
    train(0);  // rows that are there go on learning
    EXPECT_FALSE(torch::equal(embedding.forward(torch::arange(0, 1000)).detach(), trained));
  });
}

TEST(TableEmbedding, WhatCannotBeIsSaid) {
  run_job({}, [](Session& session, Endpoint&) {
    EXPECT_TRUE(contains(sentence_of([&] { TableEmbedding(session, spec_of("add")); }), "needs a rule that takes"));
    TableSpec dense = spec_of("sgd:1");
    dense.kind = TableSpec::Kind::dense;
    EXPECT_TRUE(contains(sentence_of([&] { TableEmbedding(session, dense); }), "must be sparse"));
    TableEmbedding embedding(session, spec_of("sgd:1"));
    EXPECT_TRUE(contains(sentence_of([&] { embedding.forward(torch::zeros({2})); }), "keys of type int64"));
    const torch::Tensor rows = embedding.forward(torch::zeros({2}, torch::kLong));
    EXPECT_TRUE(contains(sentence_of([&] { (rows.sum() * std::numeric_limits<float>::infinity()).backward(); }),
                         "the gradient of rows of table 'rows' has a NaN or Inf"));
  });
}

// As a user writes it: the parameters by the plan, the rows beside them.
TEST(TableEmbedding, TrainsBesideDataParallelOnItsServers) {
  for (const std::string when : {"bsp", "ssp:2", "essp:2", "async", "softsync:1"}) {
    Job job = join(0, nullptr);
    torch::nn::Linear net = make_seeded<torch::nn::Linear>(1, kFields * kWidth, 1);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DataParallel parallel(job, *net, sgd, fmt::format("when={} where=server:2", when));
    TableEmbedding embedding(parallel.session(), spec_of("adagrad:0.2"));
    std::vector<float> losses;
    for (int step = 0; step < 120; ++step) {
      const torch::Tensor keys = keys_of(0, step);
      const torch::Tensor goal = keys.gt(5).sum(1).to(torch::kFloat);
      const torch::Tensor loss = (net(embedding.forward(keys).flatten(1)).flatten() - goal).pow(2).mean();
      embedding.prefetch(keys_of(0, step + 1));
      sgd.zero_grad();
      loss.backward();
      parallel.step();
      losses.push_back(loss.item<float>());
    }
    EXPECT_LT(losses.back(), losses.front() / 10) << when;
  }
}

TEST(TableEmbedding, APlanWithoutServersHasNoDoorToThem) {
  Job job = join(0, nullptr);
  torch::nn::Linear net = make_seeded<torch::nn::Linear>(1, 2, 1);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  DataParallel parallel(job, *net, sgd, "where=allreduce");
  EXPECT_TRUE(contains(sentence_of([&] { parallel.session(); }), "use where=server:N"));
}

}  // namespace
}  // namespace paceline
