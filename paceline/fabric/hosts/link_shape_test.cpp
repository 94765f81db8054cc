#include "paceline/fabric/hosts/link_shape.hpp"

#include <gtest/gtest.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(LinkShape, ReadsARateALatencyOrBoth) {
  const LinkShape both = parse_link("100Mbit/s,5ms");
  EXPECT_DOUBLE_EQ(both.bytes_per_second, 12.5e6);
  EXPECT_EQ(both.latency, milliseconds(5));
  EXPECT_DOUBLE_EQ(parse_link("1.5GB/s").bytes_per_second, 1.5e9);
  EXPECT_EQ(parse_link("1.5GB/s").latency, Duration(0));
  EXPECT_EQ(parse_link("20us").latency, microseconds(20));
  EXPECT_EQ(parse_link("20µs,8kbit/s").latency, microseconds(20));
  EXPECT_DOUBLE_EQ(parse_link("20µs,8kbit/s").bytes_per_second, 1000);
}

TEST(LinkShape, RefusesWhatIsNeither) {
  for (const char* text : {"", ",", "100Mbit/s,", "100", "Mbit/s", "-1Mbit/s", "0ms", "nanms", "inf", "1ms,2ms",
                           "1GB/s,1GB/s", "1bit/s", "1e14B/s", "11s", "5 ms", "100mbit/s"}) {
    EXPECT_THROW(parse_link(text), Error) << text;
  }
}

TEST(LinkShape, SaysHowLongBytesTake) {
  EXPECT_EQ(parse_link("1MB/s").time_for(1000), milliseconds(1));
  EXPECT_EQ(parse_link("1ms").time_for(1000), Duration(0));
}

TEST(LinkShape, IsAShapeOnlyIfOneWasGiven) {
  EXPECT_FALSE(LinkShape().shapes());
  EXPECT_TRUE(parse_link("1ms").shapes());
}

}  // namespace
}  // namespace paceline
