#include "paceline/data/deal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "paceline/core/error.hpp"
#include "paceline/data/sampler.hpp"

namespace paceline {
namespace {

constexpr int kClasses = 10;

std::vector<std::uint8_t> some_labels(std::size_t count) {
  std::vector<std::uint8_t> labels;
  for (std::size_t i = 0; i < count; ++i) labels.push_back(static_cast<std::uint8_t>((i * 7 + i / 13) % kClasses));
  return labels;
}

// By worker, how many of each class.
std::vector<std::map<int, int>> classes_of(const std::vector<std::uint32_t>& dealt,
                                           const std::vector<std::uint8_t>& labels, int workers) {
  std::vector<std::map<int, int>> counts(static_cast<std::size_t>(workers));
  for (int w = 0; w < workers; ++w) {
    const Range share = share_of(labels.size(), workers, w);
    for (std::size_t i = share.first; i < share.last; ++i) ++counts[static_cast<std::size_t>(w)][labels[dealt[i]]];
  }
  return counts;
}

// The mean over the workers of the share of their most frequent class.
double concentration(double alpha) {
  constexpr int kWorkers = 20;
  const auto labels = some_labels(20'000);
  const auto dealt = deal_out({.kind = Deal::Kind::dirichlet, .alpha = alpha}, labels, kWorkers, 3);
  double sum = 0;
  for (const auto& counts : classes_of(dealt, labels, kWorkers)) {
    int most = 0;
    for (const auto& [label, count] : counts) most = std::max(most, count);
    sum += most / 1000.0;
  }
  return sum / kWorkers;
}

TEST(Deal, EveryExampleGoesToOneWorker) {
  for (const std::string word : {"by-label", "dirichlet:0.1", "dirichlet:100"}) {
    for (const int workers : {1, 2, 3, 7}) {
      const auto labels = some_labels(1000);
      auto dealt = deal_out(parse_deal(word), labels, workers, 1);
      EXPECT_EQ(dealt, deal_out(parse_deal(word), labels, workers, 1));
      EXPECT_NE(dealt, deal_out(parse_deal(word), labels, workers, 2));
      std::sort(dealt.begin(), dealt.end());
      for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(dealt[i], i);
    }
  }
  EXPECT_TRUE(deal_out({}, some_labels(10), 2, 1).empty());
}

TEST(Deal, ByLabelAWorkerHasFewClasses) {
  const auto labels = some_labels(1000);
  for (const auto& counts : classes_of(deal_out(parse_deal("by-label"), labels, 10, 1), labels, 10))
    EXPECT_LE(counts.size(), 3u);
}

TEST(Deal, ASmallAlphaConcentratesAndALargeOneDoesNot) {
  EXPECT_GT(concentration(0.1), 0.6);
  EXPECT_LT(concentration(1e4), 0.15);
  EXPECT_GT(concentration(1), concentration(10));
}

TEST(Deal, ASamplerGivesEachWorkerItsOwnInEveryEpochAndEachOnce) {
  for (const std::size_t samples : {std::size_t{60}, std::size_t{100}, std::size_t{103}}) {
    for (const int workers : {1, 2, 3, 5}) {
      const auto labels = some_labels(samples);
      const auto dealt = deal_out(parse_deal("by-label"), labels, workers, 1);
      Sampler sampler({.samples = samples, .batch = 4, .workers = workers, .seed = 1, .dealt = dealt});
      std::vector<std::uint32_t> orders[2];
      for (int epoch = 0; epoch < 2; ++epoch) {
        sampler.begin_epoch(epoch);
        std::set<std::uint32_t> seen;
        for (int w = 0; w < workers; ++w) {
          const Range share = share_of(samples, workers, w);
          const std::set<std::uint32_t> own(dealt.begin() + static_cast<std::ptrdiff_t>(share.first),
                                            dealt.begin() + static_cast<std::ptrdiff_t>(share.last));
          for (std::size_t step = 0; step < sampler.steps(); ++step) {
            for (const std::uint32_t example : sampler.indices(step, w)) {
              EXPECT_TRUE(own.contains(example)) << samples << " on " << workers;
              seen.insert(example);
              orders[epoch].push_back(example);
            }
          }
        }
        EXPECT_EQ(seen.size(), samples);
      }
      EXPECT_NE(orders[0], orders[1]);
    }
  }
}

TEST(Deal, WordsThatAreNoneAreRefused) {
  for (const std::string bad : {"", "label", "dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:-1", "dirichlet:x",
                                "dirichlet:1x", "dirichlet:inf"})
    EXPECT_THROW(parse_deal(bad), Error) << bad;
  EXPECT_NO_THROW(require_fit(parse_deal("by-label"), {.kind = Kind::images, .shape = {}, .classes = 10}));
  EXPECT_NO_THROW(require_fit(parse_deal("iid"), {.kind = Kind::text, .shape = {}, .classes = 30}));
  EXPECT_THROW(require_fit(parse_deal("by-label"), {.kind = Kind::text, .shape = {}, .classes = 30}), Error);
  EXPECT_THROW(require_fit(parse_deal("dirichlet:1"), {.kind = Kind::table, .shape = {}, .classes = 0}), Error);
}

}  // namespace
}  // namespace paceline
