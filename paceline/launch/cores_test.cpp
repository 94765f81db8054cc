#include "paceline/launch/cores.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Plan = std::vector<Cores>;

TEST(Cores, TheKernelsListsAreRead) {
  EXPECT_EQ(parse_core_list("0-3,8,10-11\n"), (Cores{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_core_list(""), Cores{});
  EXPECT_EQ(parse_core_list("7"), Cores{7});
}

TEST(Cores, AQuotaIsReadAndNoQuotaIsNone) {
  EXPECT_DOUBLE_EQ(parse_cpu_max("150000 100000").value(), 1.5);
  EXPECT_FALSE(parse_cpu_max("max 100000"));
  EXPECT_FALSE(parse_cpu_max(""));
  EXPECT_FALSE(parse_cpu_max("100000 0"));
}

TEST(Cores, ThisProcessMayRunSomewhere) { EXPECT_FALSE(allowed_cores().empty()); }

TEST(Cores, ThreadsAreCoresOverWorkersAndAtLeastOne) {
  EXPECT_EQ(default_threads(8, std::nullopt, 4), 2);
  EXPECT_EQ(default_threads(8, std::nullopt, 3), 2);
  EXPECT_EQ(default_threads(2, std::nullopt, 4), 1);
}

TEST(Cores, AQuotaCountsOnlyWhereItIsSmaller) {
  EXPECT_EQ(default_threads(8, 4.0, 2), 2);
  EXPECT_EQ(default_threads(8, 0.5, 1), 1);
  EXPECT_EQ(default_threads(8, 64.0, 2), 4);
}

TEST(Binding, CoresAreGivenOutInConsecutiveBlocksOfTheAllowedOnes) {
  const BindPlan plan = plan_binding(Bind::core, 3, 2, {1, 2, 5, 6, 8, 9}, {});
  EXPECT_EQ(plan.workers, (Plan{{1, 2}, {5, 6}, {8, 9}}));
  EXPECT_EQ(plan.remark, "");
}

TEST(Binding, WithMoreWorkersThanCoresTheyWrapAroundAndItIsSaid) {
  const BindPlan plan = plan_binding(Bind::core, 3, 1, {4, 7}, {});
  EXPECT_EQ(plan.workers, (Plan{{4}, {7}, {4}}));
  EXPECT_NE(plan.remark, "");
  EXPECT_EQ(plan_binding(Bind::core, 2, 64, {4, 7}, {}).workers, (Plan{{4, 7}, {4, 7}}));
}

TEST(Binding, NeighbouringWorkersShareANumaNode) {
  const std::vector<Cores> nodes = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  const Cores allowed = {1, 2, 3, 4, 5};
  EXPECT_EQ(plan_binding(Bind::numa, 4, 1, allowed, nodes).workers, (Plan{{1, 2, 3}, {1, 2, 3}, {4, 5}, {4, 5}}));
  EXPECT_EQ(plan_binding(Bind::numa, 1, 1, allowed, nodes).workers, (Plan{{1, 2, 3}}));
}

TEST(Binding, ANodeWithoutAllowedCoresIsPassedOver) {
  EXPECT_EQ(plan_binding(Bind::numa, 2, 1, {4, 5}, {{0, 1}, {4, 5}}).workers, (Plan{{4, 5}, {4, 5}}));
}

TEST(Binding, WithoutKnowledgeOfNodesNobodyIsBoundAndItIsSaid) {
  const BindPlan plan = plan_binding(Bind::numa, 2, 1, {0, 1}, {});
  EXPECT_EQ(plan.workers, (Plan{{}, {}}));
  EXPECT_NE(plan.remark, "");
}

}  // namespace
}  // namespace paceline
