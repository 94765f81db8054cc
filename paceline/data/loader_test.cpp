#include "paceline/data/loader.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "paceline/data/data_test_support.hpp"

namespace paceline {
namespace {

const Normalisation kNormalisation = {.mean = 0.25F, .scale = 3.0F};

// The plain way: no table, no thread, no buffers.
Batch reference(const Dataset& data, const Sampler& sampler, std::size_t step, int worker) {
  Batch batch;
  for (const std::uint32_t example : sampler.indices(step, worker)) {
    for (const std::uint8_t pixel : data.pixels(example)) {
      batch.values.push_back((static_cast<float>(pixel) / 255.0F - 0.25F) * 3.0F);
    }
    batch.labels.push_back(data.label(example));
  }
  batch.global_size = sampler.global_size(step);
  batch.consumed = sampler.consumed_after(step);
  return batch;
}

void expect_same(const Batch& batch, const Batch& expected) {
  EXPECT_EQ(batch.values, expected.values);
  EXPECT_EQ(batch.labels, expected.labels);
  EXPECT_EQ(batch.global_size, expected.global_size);
  EXPECT_EQ(batch.consumed, expected.consumed);
  EXPECT_EQ(batch.size(), expected.labels.size());
}

// Takes the first `steps` steps of an epoch, all unless told otherwise, and compares them.
void expect_epoch(Loader& loader, const Dataset& data, const SamplerOptions& options, int worker, int epoch,
                  std::size_t consumed, std::optional<std::size_t> steps = {}) {
  Sampler sampler(options);
  sampler.begin_epoch(epoch, consumed);
  loader.begin_epoch(epoch, consumed);
  ASSERT_EQ(loader.steps(), sampler.steps());
  for (std::size_t step = 0; step < steps.value_or(sampler.steps()); ++step) {
    const Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    expect_same(*batch, reference(data, sampler, step, worker));
  }
  if (!steps) {
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(Loader, GivesWhatThePlainWayGives) {
  const Dataset data = small_data(101);
  for (int workers = 1; workers <= 5; ++workers) {
    const SamplerOptions options = {.samples = 101, .batch = 7, .workers = workers, .seed = 4};
    for (int worker = 0; worker < workers; ++worker) {
      Loader loader(data, kNormalisation, options, worker);
      EXPECT_EQ(loader.next(), nullptr);
      for (int epoch = 0; epoch < 3; ++epoch) expect_epoch(loader, data, options, worker, epoch, 0);
    }
  }
}

TEST(Loader, GoesOnInTheMiddleOfAnEpoch) {
  const Dataset data = small_data(50);
  const SamplerOptions options = {.samples = 50, .batch = 4, .workers = 2};
  Loader loader(data, kNormalisation, options, 1);
  for (const std::size_t consumed : {0, 8, 13, 49, 50}) expect_epoch(loader, data, options, 1, 2, consumed);
}

TEST(Loader, AWorkersPartOfTheLastStepMayBeEmpty) {
  const Dataset data = small_data(9);
  Loader loader(data, kNormalisation, {.samples = 9, .batch = 2, .workers = 4}, 3);
  loader.begin_epoch(0);
  EXPECT_EQ(loader.next()->size(), 2U);
  const Batch* last = loader.next();
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->size(), 0U);
  EXPECT_TRUE(last->values.empty());
  EXPECT_EQ(last->global_size, 1U);
  EXPECT_EQ(last->consumed, 9U);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, BeginsAnotherEpochInTheMiddleOfOne) {
  const Dataset data = small_data(64);
  const SamplerOptions options = {.samples = 64, .batch = 2};
  Loader loader(data, kNormalisation, options, 0);
  for (int epoch = 0; epoch < 30; ++epoch) {
    expect_epoch(loader, data, options, 0, epoch, 0, static_cast<std::size_t>(epoch % 9));
  }
}

TEST(Loader, EndsInTheMiddleOfAnEpoch) {
  for (std::size_t taken = 0; taken < 20; ++taken) {
    Loader loader(small_data(64), kNormalisation, {.samples = 64, .batch = 2}, 0);
    loader.begin_epoch(0);
    for (std::size_t step = 0; step < taken; ++step) EXPECT_NE(loader.next(), nullptr);
  }
}

TEST(Loader, AnEpochThatIsRefusedLeavesNothingToTake) {
  Loader loader(small_data(64), kNormalisation, {.samples = 64, .batch = 2}, 0);
  loader.begin_epoch(0);
  EXPECT_TRUE(says(refusal([&] { loader.begin_epoch(0, 65); }), "cannot be done already"));
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Fill, ReusesTheBuffers) {
  const Dataset data = small_data(10);
  const std::uint32_t many[] = {9, 8, 7, 6};
  const std::uint32_t few[] = {1};
  Batch batch;
  fill(batch, data, kNormalisation, many);
  const float* buffer = batch.values.data();
  fill(batch, data, kNormalisation, few);
  EXPECT_EQ(batch.values.size(), 6U);
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{1}));
  fill(batch, data, kNormalisation, many);
  EXPECT_EQ(batch.values.data(), buffer);
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{4, 3, 2, 1}));
}

}  // namespace
}  // namespace paceline
