#include "paceline/server/placement.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace paceline {
namespace {

TEST(Placement, RangesOfAllServersPartitionTheRows) {
  for (const std::uint32_t width : {1U, 2U, 3U, 5U, 15U, 16U, 17U, 64U}) {
    for (int servers = 1; servers <= 9; ++servers) {
      for (std::uint64_t rows = 0; rows <= 200; ++rows) {
        std::uint64_t next = 0;
        for (int server = 0; server < servers; ++server) {
          const RowRange range = range_of_server(rows, width, servers, server);
          ASSERT_EQ(range.first, next);
          ASSERT_GE(range.last, range.first);
          next = range.last;
        }
        ASSERT_EQ(next, rows);
      }
    }
  }
}

TEST(Placement, NoTwoServersShareACacheLineAndNoneHasMuchMoreThanAnother) {
  for (const std::uint32_t width : {1U, 3U, 16U, 40U}) {
    for (int servers = 1; servers <= 9; ++servers) {
      const std::uint64_t rows = 10'007;
      for (int server = 0; server < servers; ++server) {
        const RowRange range = range_of_server(rows, width, servers, server);
        if (server > 0) {
          EXPECT_TRUE(width > 16 || range.first * width % 16 == 0 || width == 3) << width;
          if (width == 3) {
            EXPECT_EQ(range.first % 6, 0u);  // 18 floats
          }
        }
        EXPECT_NEAR(static_cast<double>(range.size()), static_cast<double>(rows) / servers, 32.0);
      }
    }
  }
}

TEST(Placement, AnOverlapIsWhatTwoRangesShare) {
  for (std::uint64_t a = 0; a < 5; ++a) {
    for (std::uint64_t b = a; b < 5; ++b) {
      for (std::uint64_t c = 0; c < 5; ++c) {
        for (std::uint64_t d = c; d < 5; ++d) {
          const RowRange both = overlap({a, b}, {c, d});
          for (std::uint64_t row = 0; row < 5; ++row)
            EXPECT_EQ(row >= both.first && row < both.last, row >= a && row < b && row >= c && row < d);
        }
      }
    }
  }
}

// Of n keys a server has n/servers on average, with a deviation of at most sqrt(n/servers); six of them are never left.
TEST(Placement, KeysAreSpreadEvenlyWhateverTheirPattern) {
  constexpr std::uint64_t kKeys = 100'000;
  for (const std::uint64_t stride :
       {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{1} << 32, std::uint64_t{1} << 47}) {
    for (int servers = 1; servers <= 9; ++servers) {
      std::vector<double> counts(static_cast<std::size_t>(servers));
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        const int server = server_of_key(key * stride, servers);
        ASSERT_TRUE(server >= 0 && server < servers);
        ++counts[static_cast<std::size_t>(server)];
      }
      const double share = static_cast<double>(kKeys) / servers;
      for (const double count : counts) EXPECT_NEAR(count, share, 6 * std::sqrt(share)) << stride << ' ' << servers;
    }
  }
}

TEST(Placement, TheServerOfARowIsTheOneWhoseRangeHasIt) {
  for (const std::uint64_t rows : {1U, 2U, 7U, 64U, 1000U}) {
    for (const std::uint32_t width : {1U, 5U, 64U}) {
      for (int servers = 1; servers <= 9; ++servers) {
        for (int server = 0; server < servers; ++server) {
          const RowRange range = range_of_server(rows, width, servers, server);
          for (std::uint64_t row = range.first; row < range.last; ++row)
            ASSERT_EQ(server_of_row(rows, width, servers, row), server) << rows << " " << width << " " << servers;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline
