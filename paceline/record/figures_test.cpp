#include "paceline/record/figures.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline {
namespace {

TEST(Figures, LongNumbersHaveThousandsSeparators) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(-1234567), "-1,234,567");
  EXPECT_EQ(with_thousands(-123), "-123");
  EXPECT_EQ(with_thousands(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Figures, RatesKeepThreeDigits) {
  EXPECT_EQ(rounded(1834.2), "1,834");
  EXPECT_EQ(rounded(99.97), "100");
  EXPECT_EQ(rounded(12.34), "12.3");
  EXPECT_EQ(rounded(0.466), "0.47");
  EXPECT_EQ(rounded(0), "0");
}

TEST(Figures, TimesAreReadableAtEveryLength) {
  EXPECT_EQ(clock_time(41.2), "0:41");
  EXPECT_EQ(clock_time(725), "12:05");
  EXPECT_EQ(clock_time(3723), "1:02:03");
  EXPECT_EQ(time_span(0), "0.0 s");
  EXPECT_EQ(time_span(0.0012), "1.20 ms");
  EXPECT_EQ(time_span(0.85), "850 ms");
  EXPECT_EQ(time_span(41.23), "41.2 s");
  EXPECT_EQ(time_span(59.97), "1 min 0 s");
  EXPECT_EQ(time_span(725), "12 min 5 s");
  EXPECT_EQ(time_span(3723), "1 h 2 min");
}

TEST(Figures, BytesChangeTheirUnitBeforeTheyReachAThousand) {
  EXPECT_EQ(byte_count(0), "0 B");
  EXPECT_EQ(byte_count(1023), "1023 B");
  EXPECT_EQ(byte_count(1536), "1.5 KiB");
  EXPECT_EQ(byte_count((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(byte_count(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Figures, WhatIsNotANumberIsADash) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300}) {
    EXPECT_EQ(rounded(value), "–");
    EXPECT_EQ(percent(value), "–");
    EXPECT_EQ(clock_time(value), "–");
    EXPECT_EQ(time_span(value), "–");
  }
}

}  // namespace
}  // namespace paceline
