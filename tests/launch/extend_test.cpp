// Jobs that make further ranks out of threads of their workers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/launch/command.hpp"

namespace paceline {
namespace {

TEST(Extend, EveryRankOldOrNewReachesEveryOtherAndServesTables) {
  for (const int size : {1, 2, 3}) {
    for (const int more : {0, 1, 2, 5}) {
      const Ended ended =
          paceline_run({"-n", std::to_string(size), "--no-prefix", PACELINE_EXTEND_WORKER, std::to_string(more)})
              .wait();
      EXPECT_EQ(ended.exit_code, 0) << size << " + " << more << ": " << ended.errors;
      std::vector<std::string> expected;
      for (int rank = 0; rank < size; ++rank)
        expected.push_back(fmt::format("rank {} of {} holds {} more, sum {}", rank, size + more,
                                       more / size + (rank < more % size ? 1 : 0),
                                       more == 0 ? 0 : 3 * size * (size + 1) / 2));
      EXPECT_EQ(sorted_lines(ended.output), expected);
    }
  }
}

TEST(Extend, RanksThatAskForDifferentNumbersAreTold) {
  const Ended ended =
      run_script({"-n", "2"}, std::string("exec ") + PACELINE_EXTEND_WORKER + " $((PACELINE_RANK + 1))").wait();
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(contains(ended.errors, "asked for different numbers of further ranks")) << ended.errors;
}

}  // namespace
}  // namespace paceline
