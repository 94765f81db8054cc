#include "paceline/server/stream_copy.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace paceline {
namespace {

TEST(StreamCopy, CopiesExactlyWhatItIsGivenFromAndToAnyPlace) {
  std::vector<float> from(200);
  std::iota(from.begin(), from.end(), 1.0F);
  for (std::size_t count = 0; count <= 70; ++count) {
    for (std::size_t source = 0; source < 5; ++source) {
      for (std::size_t target = 0; target < 18; ++target) {
        std::vector<float> into(120, -1);
        stream_copy(into.data() + target, from.data() + source, count);
        finish_streams();
        for (std::size_t i = 0; i < into.size(); ++i) {
          const bool copied = i >= target && i < target + count;
          ASSERT_EQ(into[i], copied ? from[source + i - target] : -1) << count << ' ' << source << ' ' << target;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline
