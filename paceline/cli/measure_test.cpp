#include "paceline/cli/measure.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace paceline {
namespace {

using Sizes = std::vector<std::size_t>;

void expect_refused(const std::string& text) {
  try {
    parse_sizes(text);
    FAIL() << "'" << text << "' was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid) << text;
  }
}

TEST(ParseSizes, ReadsBytesAndBinaryUnits) {
  EXPECT_EQ(parse_sizes("0"), Sizes{0});
  EXPECT_EQ(parse_sizes("1024"), Sizes{1024});
  EXPECT_EQ(parse_sizes("7B,3KiB,2MiB,1GiB"), (Sizes{7, 3072, 2U << 20, 1U << 30}));
}

TEST(ParseSizes, KeepsTheOrderGiven) { EXPECT_EQ(parse_sizes("8,4,8"), (Sizes{8, 4, 8})); }

TEST(ParseSizes, DoublesThroughARange) {
  EXPECT_EQ(parse_sizes("1KiB:8KiB"), (Sizes{1024, 2048, 4096, 8192}));
  EXPECT_EQ(parse_sizes("1KiB:256MiB").size(), 19U);
  EXPECT_EQ(parse_sizes("64:64"), Sizes{64});
}

TEST(ParseSizes, EndsARangeWhereItWasAskedTo) { EXPECT_EQ(parse_sizes("3:20,5"), (Sizes{3, 6, 12, 20, 5})); }

TEST(ParseSizes, SurvivesARangeThatEndsAtTheLargestNumber) {
  const Sizes sizes = parse_sizes("1:18446744073709551615");
  EXPECT_EQ(sizes.size(), 65U);
  EXPECT_EQ(sizes.back(), std::numeric_limits<std::size_t>::max());
}

TEST(ParseSizes, RefusesNonsense) {
  for (const char* text :
       {"", ",", "1,", ",1", "x", "-1", "1.5MiB", "1KB", "1kib", "1 KiB", "0x10", "1:", ":1", "1:2:4"}) {
    expect_refused(text);
  }
}

TEST(ParseSizes, RefusesRangesThatLeadNowhere) {
  for (const char* text : {"0:8", "8KiB:4KiB"}) expect_refused(text);
}

TEST(ParseSizes, RefusesWhatDoesNotFit) {
  for (const char* text : {"18446744073709551616", "17179869184GiB"}) expect_refused(text);
}

TEST(ParseSizes, NamesTheOffender) {
  try {
    parse_sizes("1KiB,64KB");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'64KB'"), std::string::npos) << error.what();
  }
}

TEST(FormatBytes, ChoosesTheUnitThatReadsBest) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1500), "1500 B");
  EXPECT_EQ(format_bytes(3U << 19), "1.5 MiB");
  EXPECT_EQ(format_bytes(256U << 20), "256 MiB");
  EXPECT_EQ(format_bytes(std::size_t{5} << 30), "5 GiB");
}

TEST(Statistics, MedianLiesInTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Statistics, MadIsDeafToOneOutlier) {
  EXPECT_EQ(mad({5, 5, 5}), 0);
  EXPECT_EQ(mad({1, 2, 3, 4, 1000}), 1);
}

TEST(Statistics, QuantileInterpolates) {
  EXPECT_EQ(quantile({10, 20}, 0), 10);
  EXPECT_EQ(quantile({10, 20}, 1), 20);
  EXPECT_DOUBLE_EQ(quantile({10, 20}, 0.99), 19.9);
}

TEST(Statistics, GbpsCountsDecimalGigabytes) {
  EXPECT_DOUBLE_EQ(gbps(1000000, 1000), 1);
  EXPECT_EQ(gbps(64, 0), 0);
}

TEST(PlanBatches, FillsTheBudgetWithAtMostAHundredBatches) {
  const Batches quick = plan_batches(1, 1);
  EXPECT_EQ(quick.count, 100U);
  EXPECT_EQ(quick.operations, 10000U);
  const Batches middling = plan_batches(25'000, 1);
  EXPECT_EQ(middling.count, 40U);
  EXPECT_EQ(middling.operations, 1U);
}

TEST(PlanBatches, RunsFiveOperationsHoweverSlow) {
  const Batches slow = plan_batches(1e9, 0.1);
  EXPECT_EQ(slow.count, 5U);
  EXPECT_EQ(slow.operations, 1U);
}

TEST(PlanBatches, SurvivesAnOperationTooQuickToTime) { EXPECT_EQ(plan_batches(0, 0.001).count, 100U); }

// The ranks agree only through average(): what it returns, not the local clock, decides how often the operation runs.
TEST(Measure, TakesItsCountsFromTheAverage) {
  std::size_t calls = 0, averages = 0;
  const Timing timing = measure([&] { ++calls; }, [&](double) { return ++averages, 1000.0; }, 0.1);
  EXPECT_EQ(timing.median_us, 1000);
  EXPECT_EQ(timing.mad_us, 0);
  EXPECT_EQ(timing.p99_us, 1000);
  EXPECT_EQ(averages, 5U + 100U);  // warm-up of 1, 2, 4, 8, 16 operations; then the batches
  EXPECT_EQ(calls, 1U + 2 + 4 + 8 + 16 + 100);
}

}  // namespace
}  // namespace paceline
