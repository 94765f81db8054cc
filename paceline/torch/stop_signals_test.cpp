#include "paceline/torch/stop_signals.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace paceline {
namespace {

TEST(StopSignals, EachIsSeenAndDoesNothingElse) {
  for (int i = 0; i < StopSignals::kCount; ++i) {
    const StopSignals signals;
    EXPECT_EQ(signals.pending(), -1);
    raise(StopSignals::number(i));
    EXPECT_EQ(signals.pending(), i) << StopSignals::name(i);
    EXPECT_EQ(signals.pending(), i) << "it stays";
  }
}

TEST(StopSignals, HaveTheirNames) {
  EXPECT_EQ(StopSignals::name(0), "SIGINT");
  EXPECT_EQ(StopSignals::number(0), SIGINT);
  EXPECT_EQ(StopSignals::name(1), "SIGTERM");
  EXPECT_EQ(StopSignals::number(1), SIGTERM);
  EXPECT_EQ(StopSignals::name(2), "SIGUSR1");
  EXPECT_EQ(StopSignals::number(2), SIGUSR1);
}

TEST(StopSignals, AfterwardsAllIsAsBefore) {
  struct sigaction before = {};
  before.sa_handler = SIG_IGN;
  struct sigaction original = {};
  sigaction(SIGUSR1, &before, &original);
  { const StopSignals signals; }
  struct sigaction after = {};
  sigaction(SIGUSR1, &original, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

}  // namespace
}  // namespace paceline
