#include "paceline/collective/catalogue.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace paceline {
namespace {

template <class Enum>
std::vector<Enum> up_to(Enum last) {
  std::vector<Enum> all;
  for (int i = 0; i <= static_cast<int>(last); ++i) all.push_back(static_cast<Enum>(i));
  return all;
}

TEST(Catalogue, HasOneRowForAnOperationAndAnAlgorithm) {
  std::set<std::pair<Collective, Algorithm>> seen;
  for (const Way& way : catalogue()) {
    EXPECT_TRUE(seen.insert({way.op, way.algorithm}).second) << name(way.op) << " by " << name(way.algorithm);
  }
}

TEST(Catalogue, HasAWayForEveryOperationThatAutomaticMayTakeOnAnyGroup) {
  for (const Collective op : up_to(kLastCollective)) {
    bool found = false;
    for (const Way& way : catalogue()) {
      found |= way.op == op && way.chosen == Way::Chosen::always && way.algorithm != Algorithm::shm;
    }
    EXPECT_TRUE(found) << name(op);
  }
}

TEST(Catalogue, UsesEveryAlgorithmThatHasAName) {
  std::set<Algorithm> used = {Algorithm::automatic};
  for (const Way& way : catalogue()) used.insert(way.algorithm);
  EXPECT_EQ(*used.rbegin(), kLastAlgorithm) << "a new last one has to be named in schedule.hpp";
  for (const Algorithm algorithm : up_to(kLastAlgorithm)) EXPECT_TRUE(used.count(algorithm)) << name(algorithm);
}

TEST(Catalogue, NamesAreKnownAndUnlikeEachOther) {
  std::set<std::string_view> names = {"?"};
  for (const Collective op : up_to(kLastCollective)) EXPECT_TRUE(names.insert(name(op)).second) << name(op);
  names = {"?"};
  for (const Algorithm algorithm : up_to(kLastAlgorithm))
    EXPECT_TRUE(names.insert(name(algorithm)).second) << name(algorithm);
}

TEST(Catalogue, SaysWhenAnOperationHasNoSuchAlgorithm) {
  EXPECT_EQ(find_way(Collective::barrier, Algorithm::ring), nullptr);
  EXPECT_NE(find_way(Collective::allreduce, Algorithm::ring), nullptr);
}

}  // namespace
}  // namespace paceline
