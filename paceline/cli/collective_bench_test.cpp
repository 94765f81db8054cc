#include "paceline/cli/collective_bench.hpp"

#include <gtest/gtest.h>

#include "paceline/fabric/run_ranks.hpp"

namespace paceline {
namespace {

TEST(CollectiveBench, ReportsEveryOperationMemoryAndSizeItWasAskedFor) {
  for (const Collective op :
       {Collective::allreduce, Collective::allgather, Collective::broadcast, Collective::alltoall}) {
    for (const std::string memory : {"arena", "heap"}) {
      for (const bool handle : {false, true}) {
        run_ranks(2, [&](Endpoint& endpoint) {
          std::vector<BenchPoint> points;
          const BenchOptions options{
              .op = op, .bytes = {0, 24, 1 << 20}, .memory = memory, .seconds = 0.001, .handle = handle};
          bench_collective(endpoint, options, [&](const BenchPoint& point) { points.push_back(point); });
          ASSERT_EQ(points.size(), 3u);
          EXPECT_EQ(points[2].bytes, 1u << 20);
          EXPECT_GT(points[2].timing.median_us, 0);
          EXPECT_NE(points[2].algorithm, "auto");
        });
      }
    }
  }
}

TEST(CollectiveBench, SumsEveryTensorOfABufferAlsoWhereTheyDifferInSize) {
  for (const bool handle : {false, true}) {
    run_ranks(3, [&](Endpoint& endpoint) {
      const BenchOptions options{.bytes = {4 * 1001}, .seconds = 0.001, .handle = handle, .tensors = 7};
      int points = 0;
      bench_collective(endpoint, options, [&](const BenchPoint& point) { points += point.bytes == 4 * 1001; });
      EXPECT_EQ(points, 1);
    });
  }
  EXPECT_THROW(check_bench_options({.op = Collective::alltoall, .tensors = 2}), Error);
}

TEST(CollectiveBench, NamesWhatItDoesNotKnow) {
  EXPECT_THROW(collective_named("reduce"), Error);
  try {
    algorithm_named("rign", Collective::allreduce);
    FAIL() << "there is no such algorithm";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_NE(std::string(error.what()).find("ring"), std::string::npos);
  }
  EXPECT_THROW(check_bench_options({.algorithm = "shm", .memory = "heap"}), Error);
}

}  // namespace
}  // namespace paceline
