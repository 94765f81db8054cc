#include "paceline/record/trace_excerpt.hpp"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

using namespace std::chrono_literals;

// Steps of 10 ms each, from `first`; after every tenth an evaluation of a second.
RankTrace steps(Rank rank, int first, int last, int events_per_step = 2) {
  RankTrace trace = {rank, "host", 1, {}};
  for (int step = first; step < last; ++step) {
    const TimePoint start = TimePoint(5s) + step * 10ms + (step / 10) * 1s;
    const Duration each = Duration(10ms) / events_per_step;
    for (int i = 0; i < events_per_step; ++i)
      trace.events.push_back({start + i * each, each, step, -1, Activity::compute});
    if (step % 10 == 9) trace.events.push_back({start + 10ms, 1s, step, -1, Activity::evaluate});
  }
  return trace;
}

std::set<std::int64_t> steps_in(const RankTrace& rank) {
  std::set<std::int64_t> found;
  for (const TraceEvent& event : rank.events) found.insert(event.step);
  return found;
}

TEST(TraceExcerpt, IsFourUsualStepsOfAllRanks) {
  const TraceExcerpt excerpt = typical_stretch({steps(0, 0, 40), steps(1, 0, 40)});
  EXPECT_EQ(excerpt.end - excerpt.start, 40ms);
  ASSERT_EQ(excerpt.ranks.size(), 2u);
  for (const RankTrace& rank : excerpt.ranks) EXPECT_EQ(steps_in(rank).size(), 4u);
}

TEST(TraceExcerpt, LiesWhereAllRanksHaveRecorded) {
  const TraceExcerpt excerpt = typical_stretch({steps(0, 0, 100), steps(1, 83, 100)});
  EXPECT_EQ(steps_in(excerpt.ranks[0]), steps_in(excerpt.ranks[1]));
  EXPECT_EQ(steps_in(excerpt.ranks[1]).size(), 4u);
}

TEST(TraceExcerpt, CutsEventsAtItsEdges) {
  std::vector<RankTrace> ranks = {steps(0, 0, 9), {1, "host", 2, {{TimePoint(0s), 100s, 0, -1, Activity::evaluate}}}};
  const TraceExcerpt excerpt = typical_stretch(ranks);
  ASSERT_EQ(excerpt.ranks[1].events.size(), 1u);
  EXPECT_EQ(excerpt.ranks[1].events[0].start, excerpt.start);
  EXPECT_EQ(excerpt.ranks[1].events[0].length, excerpt.end - excerpt.start);
}

TEST(TraceExcerpt, HasFewerStepsWhereEventsAreMany) {
  const TraceExcerpt two = typical_stretch({steps(0, 0, 9, 5000)});
  EXPECT_EQ(steps_in(two.ranks[0]).size(), 2u);
  const TraceExcerpt part = typical_stretch({steps(0, 0, 3, 15000)});
  EXPECT_EQ(part.ranks[0].events.size(), 12000u);
}

TEST(TraceExcerpt, TakesWhatThereIs) {
  EXPECT_TRUE(typical_stretch({}).ranks.empty());
  EXPECT_TRUE(typical_stretch({{0, "host", 1, {}}}).ranks.empty());
  EXPECT_EQ(typical_stretch({{0, "host", 1, {}}, steps(1, 0, 1)}).ranks[1].events.size(), 2u);
  const TraceExcerpt saved = typical_stretch({{0, "host", 1, {{TimePoint(1s), 2s, 0, -1, Activity::save}}}});
  EXPECT_EQ(saved.end - saved.start, 2s);
}

}  // namespace
}  // namespace paceline
