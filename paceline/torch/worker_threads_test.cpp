#include "paceline/torch/worker_threads.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(FairThreads, WorkersThatMayUseAllCoresShareThem) {
  const Cores all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(fair_threads(all, {all}, std::nullopt), 8);
  EXPECT_EQ(fair_threads(all, {all, all}, std::nullopt), 4);
  EXPECT_EQ(fair_threads(all, {all, all, all}, std::nullopt), 2);
  EXPECT_EQ(fair_threads({0, 1, 2}, {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}, std::nullopt), 1);
}

TEST(FairThreads, WhoIsBoundToACoreHasThatCore) {
  EXPECT_EQ(fair_threads({1}, {{0}, {1}, {2}, {3}}, std::nullopt), 1);
  EXPECT_EQ(fair_threads({2, 3}, {{0, 1}, {2, 3}}, std::nullopt), 2);
}

// Four workers, two to a socket of four cores: two each, where cores of one by workers of all would be one.
TEST(FairThreads, OnlyWorkersOfTheSameSocketShareIt) {
  const Cores first = {0, 1, 2, 3}, second = {4, 5, 6, 7};
  EXPECT_EQ(fair_threads(second, {first, first, second, second}, std::nullopt), 2);
  EXPECT_EQ(fair_threads(second, {first, first, first, second}, std::nullopt), 4);
}

TEST(FairThreads, MoreWorkersThanCoresHaveOneEach) {
  EXPECT_EQ(fair_threads({0, 1}, {{0, 1}, {0, 1}, {0, 1}, {0, 1}}, std::nullopt), 1);
}

TEST(FairThreads, AQuotaIsSharedByAllWorkersOfTheHost) {
  const Cores all = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(fair_threads(all, {all, all}, 4.0), 2);
  EXPECT_EQ(fair_threads(all, {all, all}, 100.0), 4);
  EXPECT_EQ(fair_threads(all, {all, all}, 0.5), 1);
}

TEST(LimitThreads, ReachesLibTorchAndOpenBlas) {
  auto* openblas = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  for (const int threads : {1, 2}) {
    limit_threads(threads);
    EXPECT_EQ(at::get_num_threads(), threads);
    if (openblas == nullptr) continue;
    EXPECT_EQ(openblas(), threads);
  }
  limit_threads(1);
}

}  // namespace
}  // namespace paceline
