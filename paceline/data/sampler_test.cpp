#include "paceline/data/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "paceline/data/data_test_support.hpp"

namespace paceline {
namespace {

using Indices = std::vector<std::uint32_t>;

void append(Indices& all, std::span<const std::uint32_t> part) { all.insert(all.end(), part.begin(), part.end()); }

// All workers' parts of a step, one after the other.
Indices slice(const Sampler& sampler, std::size_t step, int workers) {
  Indices all;
  for (int worker = 0; worker < workers; ++worker) append(all, sampler.indices(step, worker));
  return all;
}

// What all workers take from here to the epoch's end, in order.
Indices rest_of_epoch(const Sampler& sampler, int workers) {
  Indices all;
  for (std::size_t step = 0; step < sampler.steps(); ++step) append(all, slice(sampler, step, workers));
  return all;
}

Indices epoch_order(const SamplerOptions& options, int epoch) {
  Sampler sampler(options);
  sampler.begin_epoch(epoch);
  return rest_of_epoch(sampler, options.workers);
}

Indices everything(std::size_t samples) {
  Indices all(samples);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

bool is_permutation_of_all(Indices order, std::size_t samples) {
  std::sort(order.begin(), order.end());
  return order == everything(samples);
}

// Calls `check` for workers 1 to 9, several batches, and sizes around the multiples of batch * workers.
template <class Check>
void sweep(Check&& check) {
  for (int workers = 1; workers <= 9; ++workers) {
    for (const int batch : {1, 2, 3, 7, 16}) {
      const auto slice = static_cast<std::size_t>(workers * batch);
      for (const std::size_t samples :
           {slice, slice + 1, 2 * slice - 1, 3 * slice, 3 * slice + slice / 2, 5 * slice + 2}) {
        SCOPED_TRACE(testing::Message() << samples << " samples, " << workers << " workers, batch " << batch);
        check(SamplerOptions{.samples = samples, .batch = batch, .workers = workers, .seed = 11});
      }
    }
  }
}

TEST(Sampler, EveryExampleComesExactlyOncePerEpoch) {
  sweep([](const SamplerOptions& options) {
    for (const int epoch : {0, 1}) EXPECT_TRUE(is_permutation_of_all(epoch_order(options, epoch), options.samples));
  });
}

TEST(Sampler, PartsAreFullExceptInTheLastStepWhereTheyDifferByOneAtMost) {
  sweep([](const SamplerOptions& options) {
    Sampler sampler(options);
    sampler.begin_epoch(4);
    std::size_t consumed = 0;
    for (std::size_t step = 0; step < sampler.steps(); ++step) {
      std::vector<std::size_t> sizes;
      for (int worker = 0; worker < options.workers; ++worker) sizes.push_back(sampler.indices(step, worker).size());
      const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
      EXPECT_LE(*most - *least, 1U);
      EXPECT_LE(*most, static_cast<std::size_t>(options.batch));
      EXPECT_TRUE(*least == static_cast<std::size_t>(options.batch) || step + 1 == sampler.steps());
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), sampler.global_size(step));
      consumed += sampler.global_size(step);
      EXPECT_EQ(sampler.consumed_after(step), consumed);
    }
    EXPECT_EQ(consumed, options.samples);
  });
}

TEST(Sampler, AStepTakesTheSameExamplesWhateverTheNumberOfWorkers) {
  Sampler alone({.samples = 1001, .batch = 24, .workers = 1, .seed = 2});
  alone.begin_epoch(3);
  for (const int workers : {2, 3, 4, 6, 8, 12, 24}) {
    Sampler many({.samples = 1001, .batch = 24 / workers, .workers = workers, .seed = 2});
    many.begin_epoch(3);
    ASSERT_EQ(many.steps(), alone.steps());
    for (std::size_t step = 0; step < alone.steps(); ++step)
      EXPECT_EQ(slice(many, step, workers), slice(alone, step, 1));
  }
}

TEST(Sampler, GoesOnInTheMiddleOfAnEpochWithAnotherNumberOfWorkers) {
  sweep([](const SamplerOptions& options) {
    const Indices whole = epoch_order(options, 5);
    for (const int workers : {1, 2, 5}) {
      const SamplerOptions others = {.samples = options.samples, .batch = 1, .workers = workers, .seed = options.seed};
      if (options.samples < static_cast<std::size_t>(workers)) continue;
      Sampler before(options);
      before.begin_epoch(5);
      const std::size_t consumed = before.consumed_after(before.steps() / 2);
      Sampler after(others);
      after.begin_epoch(5, consumed);
      EXPECT_EQ(rest_of_epoch(after, workers),
                Indices(whole.begin() + static_cast<std::ptrdiff_t>(consumed), whole.end()));
    }
  });
}

TEST(Sampler, AnEpochThatIsDoneHasNoSteps) {
  Sampler sampler({.samples = 10, .batch = 3});
  EXPECT_EQ(sampler.steps(), 0U);  // none has begun
  sampler.begin_epoch(0, 10);
  EXPECT_EQ(sampler.steps(), 0U);
  sampler.begin_epoch(0, 9);
  EXPECT_EQ(sampler.steps(), 1U);
}

TEST(Sampler, ThePermutationDependsOnSeedAndEpochOnly) {
  const SamplerOptions options = {.samples = 500, .batch = 10, .workers = 2, .seed = 1};
  SamplerOptions other = options;
  other.seed = 2;
  EXPECT_EQ(epoch_order(options, 7), epoch_order(options, 7));
  EXPECT_NE(epoch_order(options, 7), epoch_order(options, 8));
  EXPECT_NE(epoch_order(options, 7), epoch_order(other, 7));
  Sampler sampler(options);
  for (int epoch = 0; epoch < 7; ++epoch) sampler.begin_epoch(epoch);
  sampler.begin_epoch(7);
  EXPECT_EQ(rest_of_epoch(sampler, 2), epoch_order(options, 7));
}

TEST(Sampler, EveryPlaceIsEquallyLikely) {
  constexpr int kEpochs = 6000;
  std::vector<std::vector<int>> often(6, std::vector<int>(6));
  Sampler sampler({.samples = 6, .batch = 6});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.begin_epoch(epoch);
    const auto order = sampler.indices(0, 0);
    for (std::size_t place = 0; place < 6; ++place) ++often[place][order[place]];
  }
  // Binomial: mean 1000, standard deviation 29.
  for (const auto& row : often) {
    for (const int count : row) EXPECT_NEAR(count, 1000, 145);
  }
}

TEST(Sampler, AStepMayTakeTheWholeSet) {
  Sampler sampler({.samples = 10, .batch = kWholeSet, .workers = 3});
  sampler.begin_epoch(0);
  EXPECT_EQ(sampler.steps(), 1U);
  EXPECT_EQ(sampler.global_size(0), 10U);
  EXPECT_EQ(sampler.indices(0, 0).size() + sampler.indices(0, 1).size() + sampler.indices(0, 2).size(), 10U);
}

TEST(Sampler, OptionsThatCannotBeAreRefused) {
  const auto sentence = [](const SamplerOptions& options) { return refusal([&] { Sampler sampler(options); }); };
  EXPECT_TRUE(says(sentence({.samples = 10, .batch = -1}), "a batch of -1 is impossible"));
  EXPECT_TRUE(says(sentence({.samples = 10, .batch = 1, .workers = 0}), "0 workers are impossible"));
  EXPECT_TRUE(says(sentence({.samples = 3, .batch = 1, .workers = 4}), "4 workers cannot share 3 examples"));
  EXPECT_TRUE(says(sentence({.samples = 0, .batch = 1, .workers = 1}), "1 workers cannot share 0 examples"));
  EXPECT_TRUE(says(sentence({.samples = 7, .batch = 2, .workers = 4}),
                   "one step of 4 workers with a batch of 2 each takes 8 examples, but there are 7"));
  EXPECT_TRUE(says(sentence({.samples = 100, .batch = INT32_MAX, .workers = 100}), "takes 214748364700 examples"));
  EXPECT_TRUE(says(sentence({.samples = std::size_t{1} << 32}), "more than 2^32"));
}

TEST(Sampler, AnEpochThatCannotBeIsRefused) {
  Sampler sampler({.samples = 10, .batch = 3});
  EXPECT_TRUE(says(refusal([&] { sampler.begin_epoch(-1); }), "epoch -1 is impossible"));
  EXPECT_TRUE(says(refusal([&] { sampler.begin_epoch(2, 11); }), "11 examples of epoch 2 cannot be done already"));
}

TEST(ShareOf, DealsOutAllInContiguousPartsThatDifferByOneAtMost) {
  for (int workers = 1; workers <= 9; ++workers) {
    for (const std::size_t samples : {0, 1, 2, 8, 9, 10, 100, 10'000}) {
      std::size_t next = 0;
      for (int worker = 0; worker < workers; ++worker) {
        const Range part = share_of(samples, workers, worker);
        EXPECT_EQ(part.first, next);
        EXPECT_GE(part.last - part.first, samples / static_cast<std::size_t>(workers));
        EXPECT_LE(part.last - part.first, samples / static_cast<std::size_t>(workers) + 1);
        next = part.last;
      }
      EXPECT_EQ(next, samples);
    }
  }
}

}  // namespace
}  // namespace paceline
