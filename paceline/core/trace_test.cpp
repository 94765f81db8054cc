#include "paceline/core/trace.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

std::vector<std::int64_t> steps_kept(std::size_t capacity, std::int64_t added) {
  Trace trace(capacity);
  for (std::int64_t step = 0; step < added; ++step) trace.add({.start = {}, .length = {}, .step = step});
  std::vector<std::int64_t> steps;
  for (const TraceEvent& event : trace.events()) steps.push_back(event.step);
  return steps;
}

TEST(Trace, KeepsTheLatestEventsInOrder) {
  EXPECT_EQ(steps_kept(4, 3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(steps_kept(4, 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(steps_kept(4, 10), (std::vector<std::int64_t>{6, 7, 8, 9}));
}

TEST(Trace, WithoutRoomKeepsNothing) { EXPECT_TRUE(steps_kept(0, 5).empty()); }

}  // namespace
}  // namespace paceline
