#include "paceline/torch/noise_spec.hpp"

#include <gtest/gtest.h>

#include "paceline/torch/complaint_test_support.hpp"

namespace paceline {
namespace {

TEST(NoiseSpec, IsReadAndWrittenAlike) {
  for (const std::string text : {"fisher-diag:128", "fisher-trace:1"}) EXPECT_EQ(parse_noise(text).text(), text);
  EXPECT_EQ(parse_noise("fisher-diag:128").shape, NoiseSpec::Shape::diagonal);
  EXPECT_EQ(parse_noise("fisher-trace:64").shape, NoiseSpec::Shape::trace);
  EXPECT_EQ(parse_noise("fisher-trace:64").batch, 64);
}

TEST(NoiseSpec, RefusesOtherWords) {
  for (const std::string bad : {"", "fisher", "fisher-diag", "fisher-diag:", "fisher-diag:0", "fisher-diag:-4",
                                "fisher-diag:12x", "fisher-full:12", "fisher-trace:99999999999999999999", ":12"})
    EXPECT_NE(complaint([&] { parse_noise(bad); }).find("fisher-trace:SMALL"), std::string::npos) << bad;
}

TEST(NoiseSpec, NeedsALargerBatchAndTwoParts) {
  const NoiseSpec spec = parse_noise("fisher-diag:128");
  EXPECT_EQ(complaint([&] { require_noise_fits(spec, 129, 2); }), "");
  EXPECT_NE(complaint([&] { require_noise_fits(spec, 128, 2); }).find("no more than the batch to imitate"),
            std::string::npos);
  EXPECT_NE(complaint([&] { require_noise_fits(spec, 4096, 1); }).find("smaller --micro-batch"), std::string::npos);
}

}  // namespace
}  // namespace paceline
